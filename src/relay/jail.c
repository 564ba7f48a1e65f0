#include "relay/jail.h"

#include "base/num.h"
#include "sys/confine.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/*
 * What the gate may do is be told, read and write the sockets it was given, and connect. It parses
 * what sandboxes and servers send, so this is written as if it were already theirs.
 */

enum { GATE_ID = 0x6fffffff }; /* the id below the ranges of sandboxes */

#define ARG0_OFFSET offsetof(struct seccomp_data, args[0])

static const struct sock_filter filter[] = {
    CONFINE_BEGIN,
#define ALLOW(call) CONFINE_ALLOW(call),
#include "relay/seccomp.def"
#undef ALLOW
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 1, 0),
    CONFINE_REFUSE,
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG0_OFFSET),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 1, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 1),
    CONFINE_PERMIT,
    CONFINE_REFUSE,
};

int jail_enter(char *why, size_t size)
{
	static const char *const files[] = {"/dev/urandom", NULL};
	const struct confine c = {.who = "gate",
				  .id = GATE_ID,
				  .files = files,
				  .filter = filter,
				  .filter_n = ARRAY_LEN(filter)};

	return confine_enter(&c, why, size);
}

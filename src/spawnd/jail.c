#include "spawnd/priv.h"

#include "base/num.h"
#include "sys/confine.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * What a keeper may do is read and write the descriptors it has, and accept calls. It reads what the sandbox's agent
 * sends, so this is written as if it were already the sandbox's. Each has an id of its own, made of its process's number,
 * which no two living processes share: below the ids of gate, inspector and sandboxes.
 */

enum { KEEPER_ID_BASE = 0x6f800000, PID_MAX = 0x400000 }; /* PID_MAX_LIMIT */

static const struct sock_filter filter[] = {
    CONFINE_BEGIN,
#define ALLOW(call) CONFINE_ALLOW(call),
#include "spawnd/keeper_calls.def"
#undef ALLOW
    CONFINE_REFUSE,
};

int keeper_jail(char *why, size_t size)
{
	static const char *const files[] = {NULL};
	const struct confine c = {.who = "keeper",
				  .id = KEEPER_ID_BASE + (uint32_t)getpid() % PID_MAX,
				  .files = files,
				  .filter = filter,
				  .filter_n = ARRAY_LEN(filter)};

	return confine_enter(&c, why, size);
}

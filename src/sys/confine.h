#pragma once
/*
 * Locking a process of our own in, before it reads what others wrote: for programs that only move
 * and parse bytes (brig-gate, brig-inspect).
 */
#include "base/err.h"

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

struct confine {
	const char *who;	  /* begins the words of a failure */
	uint32_t id;		  /* uid and gid to become where we are the host's root */
	const char *const *files; /* NULL-terminated: what can still be opened, for reading only */
	const struct sock_filter *filter; /* the system calls */
	size_t filter_n;
};

/*
 * An id of its own as the host's root, no capability, no_new_privs, not dumpable, no core file, no
 * file but c->files and no bind(2) to TCP ports (where the kernel has Landlock), the filter.
 * Descriptor limits are raised to the hard ones, as root with CAP_SYS_RESOURCE to 256 Ki. 0, or -errno
 * with what failed in
 * *why: then nothing may be served.
 */
int must_check confine_enter(const struct confine *c, char *why, size_t size);

/* Pieces of a filter: see src/relay/jail.c. Everything not permitted is EPERM; x86-64 calls only.
 */
#define CONFINE_PERMIT BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define CONFINE_REFUSE BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
#define CONFINE_BEGIN                                                                              \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),                   \
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0), CONFINE_REFUSE,          \
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define CONFINE_ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), CONFINE_PERMIT

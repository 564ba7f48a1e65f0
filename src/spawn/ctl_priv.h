#pragma once
/* Messages between a sandbox's caller and its runner: fixed size, one per SOCK_SEQPACKET record. */
#include "spawn/sandbox_priv.h"

#include <stdint.h>

enum ctl_op {
#define OP(id, nr, text, safe) CTL_##id = nr,
#include "spawn/ops.def"
#undef OP
};

struct ctl_request {
	uint32_t op;  /* enum ctl_op */
	uint32_t arg; /* exec number; 0 or 1 for FREEZE */
	uint64_t ms;  /* DEADLINE: from now, 0 = none */
};

enum ctl_kind { CTL_REPLY = 1, CTL_UP = 2, CTL_END = 3 };

struct ctl_report {
	uint32_t kind;   /* enum ctl_kind */
	int32_t ret;     /* REPLY: 0 or -errno */
	uint32_t val;    /* REPLY: a number */
	uint32_t zero;
	struct runner_end end; /* END */
	struct runner_now now; /* REPLY to NOW */
};

/* The forked runner's life: holds *s until its end. Its return value is its exit status. */
int runner_main(struct sandbox *s, int ctl_fd, int caller_pidfd);
/* Start a runner without a control socket in this process's memory, which it uses from this process's
 * exit on; caller_pidfd is this process. last_fd: see runner_leave. *s must stay. 0 or -errno. */
int must_check runner_succeed(struct sandbox *s, int caller_pidfd, int last_fd);

#pragma once
/* Messages between a sandbox's caller and its runner: fixed size, one per SOCK_SEQPACKET record. */
#include "base/err.h"
#include "spawn/runner.h"

#include <stdint.h>

enum ctl_op {
#define OP(id, nr, text, safe) CTL_##id = nr,
#include "spawn/ops.def"
#undef OP
};

struct ctl_request {
	uint32_t op;  /* enum ctl_op */
	uint32_t arg; /* exec number; 0 or 1 for FREEZE */
};

enum ctl_kind { CTL_REPLY = 1, CTL_UP = 2, CTL_END = 3 };

struct ctl_report {
	uint32_t kind;   /* enum ctl_kind */
	int32_t ret;     /* REPLY: 0 or -errno. END: 0, or the start failed with err */
	uint32_t val;    /* REPLY: a number. UP: enum runner_weaker bits */
	int32_t root_pid; /* UP */
	struct runner_end end; /* END */
	struct err err;        /* END with ret < 0 */
};

/* Everything the forked runner needs. Descriptors are its own. */
struct runner_job {
	const struct spec *spec;
	const struct tier_ops *tier;
	struct record *record;
	int ctl_fd, agent_fd, caller_pidfd, init_fd;
	const char *init_path;        /* where brig-init was found */
	bool init_is_ours;            /* it belongs to an ordinary caller */
	uint32_t sub_uid, sub_gid;    /* 0 = no subordinate ids wanted */
};

/* The runner's life; its return value is its exit status. */
int runner_main(struct runner_job *job);

#pragma once
/*
 * One sandbox as the spawner's processes see it: its caller starts it, then forks its runner, which
 * inherits this and holds it (runner_main.c). Both can kill and account; the runner removes, and the
 * caller does should the runner be lost.
 */
#include "core/spec.h"
#include "spawn/cgroup.h"
#include "spawn/record.h"
#include "spawn/runner.h"
#include "tier/tier.h"

#include <stdint.h>

struct sandbox {
	const struct spec *spec; /* borrowed; valid while starting only */
	const struct tier_ops *tier;
	struct record record;
	struct cgset cg;
	struct tier_box box;
	int image_fd; /* lock of a stored image, which goes when runner and caller have let go; -1 = none */
	uint64_t start_us, deadline_us; /* CLOCK_MONOTONIC; deadline 0 = none */
	uint32_t require;               /* REQ_NEED_* */
	uint32_t weaker;                /* enum runner_weaker */
};

/* What a start needs besides the spec. Descriptors are borrowed. */
struct sandbox_need {
	int agent_fd, init_fd;
	const char *init_path;     /* where brig-init was found */
	bool init_is_ours;         /* it belongs to an ordinary caller */
	uint32_t sub_uid, sub_gid; /* 0 = no subordinate ids wanted */
	const struct net_plan *net; /* NULL = no way out */
	const char *trust;          /* see struct tier_res */
	const char *sudo_path;      /* see struct tier_res */
};

void sandbox_init(struct sandbox *s, const struct spec *spec, const struct tier_ops *tier);
/* Claim a record, make the cgroups, start the root process, which has become the agent when this
 * returns. On failure nothing is left. */
int must_check sandbox_start(struct sandbox *s, const struct sandbox_need *need, struct err *e);
/* Refuse when something the caller insists on is missing. */
int must_check sandbox_refuse_weaker(const struct sandbox *s, struct err *e);
/* The life span ends so many ms from now, 0 = never. 0, -ERANGE over SPEC_TIMEOUT_MAX_MS. */
int must_check sandbox_deadline(struct sandbox *s, uint64_t ms);
/* SIGKILL to everything inside; does not wait. */
void sandbox_kill(struct sandbox *s);
/* Read what it cost into *end: oom_kills, pids_denied, memory_peak, wall_us, and cpu_us where a
 * cgroup knows it. */
void sandbox_account(const struct sandbox *s, struct runner_end *end);
/* Wait until the root process has ended, which the kernel allows only after everything inside has. */
void sandbox_wait_gone(const struct sandbox *s);
/* Remove cgroups and record of a sandbox that is gone. */
void sandbox_remove(struct sandbox *s);
void sandbox_done(struct sandbox *s); /* close descriptors */
/* A leaf for another exec, to be passed on; see runner_leaf. */
int must_check sandbox_leaf(struct sandbox *s, uint32_t exec_id, int *ret_fd);

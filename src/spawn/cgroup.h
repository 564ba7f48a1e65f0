#pragma once
/*
 * The cgroups of one sandbox, for every tier: cgroup v2, v1, or both (hybrid).
 *
 *      <base>/brig/local/<id>            limits; the root process lives here
 *      <base>/brig/local/<id>/exec-N     one leaf per exec, no controllers of its own
 *
 * On v2 a kill at any scope is one write to cgroup.kill (cgroups(7), Linux >= 5.14). On v1 the limits
 * are in the memory, cpu and pids hierarchies, and the v2 hierarchy beside them, which has no
 * controllers, gives kill, freeze and the leaves. <base> is the hierarchy's root for root, and for an
 * ordinary user the outermost folder above its own cgroup that was delegated to it.
 *
 * Descriptors are CLOEXEC and owned by the set. cgset_done closes them, cgset_remove removes the
 * folders. Everything is done by the runner, single-threaded.
 */
#include "base/err.h"
#include "core/spec.h"

#include "spawn/runner.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum cg_v1 { CG_V1_MEMORY, CG_V1_CPU, CG_V1_PIDS, CG_V1_COUNT };

/* Limits that do not hold on this host for this caller. */
enum cg_weaker { CG_NO_MEMORY = 1u << 0, CG_NO_CPU = 1u << 1, CG_NO_PIDS = 1u << 2, CG_NO_KILL = 1u << 3 };

struct cgset {
	char v2_base[384];              /* <base> on v2; empty = no v2, or none of it is ours */
	char v2_path[512];              /* <base>/brig/local/<id>; empty = none */
	int v2_fd;                      /* that folder, -1 = none */
	int leaf1_fd;                   /* exec-1, -1 = none */
	char v1_path[CG_V1_COUNT][128]; /* empty = not there */
	int v1_fd[CG_V1_COUNT];         /* folders, -1 = none */
	int v1_tasks_fd[CG_V1_COUNT];   /* their `tasks`, write-only, -1 = none */
	bool v2_limits;                 /* limits are on v2 */
	uint32_t weaker;                /* enum cg_weaker */
};

/* Fill in where the folders of spec will be, so that they can be recorded before they exist. */
void cgset_plan(struct cgset *c, const struct spec *spec);
enum { CGSET_PATHS_MAX = 1 + CG_V1_COUNT };
/* The planned folders: borrowed strings, their number. */
uint32_t cgset_paths(const struct cgset *c, const char *ret[CGSET_PATHS_MAX]);
/*
 * Make the planned folders and set the limits of spec. owner is the host uid whose processes may clone into
 * the leaves (the sandbox's root id), (uid_t)-1 to leave ownership alone.
 * What the host does not offer is recorded in c->weaker, not an error; a limit that exists and
 * cannot be set is one.
 */
int must_check cgset_make(struct cgset *c, const struct spec *spec, uid_t owner, struct err *e);
/* Make leaf exec-N; its folder (O_PATH). -EOPNOTSUPP without v2. */
int must_check cgset_leaf(struct cgset *c, uint32_t exec_id, uid_t owner, int *ret_fd);
/* Kill what is in leaf exec-N and remove it. -EOPNOTSUPP, -ENOENT. */
int must_check cgset_leaf_kill(struct cgset *c, uint32_t exec_id);
/* Kill everything in the sandbox by cgroup.kill. 0 or -errno; false progress is the caller's to see. */
int cgset_kill(struct cgset *c);
/* Remove leaf exec-N when nothing runs in it. -EBUSY, -EOPNOTSUPP. */
int must_check cgset_leaf_drop(struct cgset *c, uint32_t exec_id);
int cgset_freeze(struct cgset *c, bool on);

struct cg_usage {
	uint32_t oom_kills;
	uint32_t pids_denied;
	uint64_t memory_peak; /* bytes, 0 = unknown */
	uint64_t cpu_us;      /* 0 = unknown */
};
void cgset_usage(const struct cgset *c, struct cg_usage *ret);
void cgset_now(const struct cgset *c, struct runner_now *ret);
uint32_t cgset_oom_kills(const struct cgset *c);

/* A limit as the kernel has it now; UINT64_MAX = none, `known` false = no file of ours says. */
struct cg_limit {
	bool known;
	uint64_t value; /* bytes; processes; thousandths of a processor */
};
/* Read them back, by enum cg_v1, also where they are v2's. */
void cgset_limits(const struct cgset *c, struct cg_limit ret[CG_V1_COUNT]);

/* Remove the folders; waits up to wait_ms for processes to be gone. 0, -EBUSY. */
int cgset_remove(struct cgset *c, unsigned wait_ms);
void cgset_done(struct cgset *c);

/* Kill and remove by paths alone, for what a dead runner left; waits as cgset_remove. -EBUSY when something stays. */
int cgset_sweep(const char *const *paths, uint32_t n, unsigned wait_ms);

/* What `brig check` says about cgroups. */
struct cg_host {
	bool v2;            /* a v2 hierarchy is mounted */
	bool v2_writable;   /* we can make folders in it */
	bool v2_kill;       /* it has cgroup.kill */
	uint32_t v2_missing; /* CG_NO_* bits of controllers v2 does not give us */
	uint32_t v1_missing; /* CG_NO_* bits v1 does not give us */
	char base[256];     /* where our folders go on v2 */
};
void cg_host_probe(struct cg_host *ret);

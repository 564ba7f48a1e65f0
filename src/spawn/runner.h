#pragma once
/*
 * Starting and holding one sandbox. The spawner's side of `brig run`, and of the daemon later.
 *
 * runner_new prepares, runner_start makes the cgroups and has the tier start the root process; runner_hold forks its
 * runner: a small single-threaded process that enforces the life span and removes everything at the end.
 * Caller and runner watch each other by pidfd: if the caller dies the runner kills and removes the
 * sandbox; if the runner dies, runner_wait does it in the caller.
 *
 * The caller holds the only host end of the agent's stream, so when caller and runner both die the
 * agent sees end of file and ends the sandbox.
 */
#include "base/err.h"
#include "core/spec.h"
#include "spawn/gate.h"
#include "spawn/inspect.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct runner; /* opaque */

/* How and at what cost the sandbox ended. */
struct runner_end {
	bool timed_out;      /* the life span ended it */
	bool killed;         /* runner_kill ended it */
	bool lost;           /* the runner died; the caller cleaned up */
	uint32_t oom_kills;  /* processes the memory limit killed */
	uint32_t pids_denied; /* forks the process limit refused (0 where the kernel does not count) */
	uint64_t memory_peak; /* bytes, 0 = unknown */
	uint64_t cpu_us;      /* of everything that ran inside, 0 = unknown */
	uint64_t wall_us;     /* from the runner's start to the end */
};

/* What it takes at a moment; 0 where the host does not count. */
struct runner_now {
	uint64_t cpu_us; /* since its start */
	uint64_t memory, cache; /* bytes; cache is part of memory */
	uint64_t pids;
};

/*
 * Everything a start needs that may take its time: checks, brig-init, and the gate, whose secrets may be
 * somebody's command. It leaves nothing behind, whatever the caller dies of. spec is borrowed until
 * runner_start has returned. To be freed by runner_free.
 *
 * late: a gate that is only found now need not be started before it is asked something (runner_gate_begin), for which spec stays
 * borrowed. The rules of the network hold from the start in any case: until there is a gate, whoever asks waits. One whose secrets have to
 * be read, or that comes with a process that reads HTTP, is started at once.
 */
int must_check runner_new(const struct spec *spec, bool late, struct runner **ret, struct err *e);
/*
 * Start the sandbox. Returns when its agent begins to run: requests may be written to its stream at once.
 * 0, or an error with nothing left behind but r. A caller that is killed meanwhile leaves its record and cgroups
 * to the next brig: signals that may wait should wait.
 * The caller must be single-threaded, or at least not use threads that hold locks the runner needs.
 */
int must_check runner_start(struct runner *r, struct err *e);
/*
 * Fork the runner; does nothing when there is one. To be called at once after runner_start, or, where
 * there is no time limit and the caller only waits, a few milliseconds later: a fork costs a tenth of a short command's time.
 * Until then the caller is the only one to watch the clock, and only the parent-death signal and the end
 * of the stream guard the sandbox against its death, as when caller and runner are both killed. On failure
 * the sandbox is ended.
 */
int must_check runner_hold(struct runner *r, struct err *e);

/* Our end of the agent's stream; owned by the runner object, closed by runner_free. */
int runner_agent_fd(const struct runner *r);
/* The first exec's cgroup leaf is handed to the agent at start: the first EXEC needs no REQ_FD_LEAF. */
/* A descriptor that polls readable when runner_handle has something to do. */
int runner_event_fd(const struct runner *r);
/* The gate of a sandbox that may reach something; NULL when there is none. The caller listens to it and empties its records. */
struct gate *runner_gate(struct runner *r);
enum { RUNNER_ASKS = 4 };
/* While that gate has not begun: what polls readable when the sandbox asks it something, -1 = no socket. False: it has, or there is none. */
bool runner_gate_asks(const struct runner *r, int ret_fds[RUNNER_ASKS]);
/* Start it and give it what has come meanwhile; does nothing when it has begun. Does not wait: what it says is heard by gate_hear. */
int must_check runner_gate_begin(struct runner *r, struct err *e);
/* The process that reads HTTP for it; NULL when there is none. The caller watches it. */
struct inspect *runner_inspect(struct runner *r);
/* NET_RULES of a sandbox that has a gate, the caller's from now on; -1 = none, or taken. */
int runner_take_rules_fd(struct runner *r);

enum runner_state { RUNNER_STARTING, RUNNER_UP, RUNNER_ENDED };
/* Take in what the runner reported, without blocking. */
enum runner_state runner_handle(struct runner *r);

/* Limits and walls that do not hold for this sandbox. */
enum runner_weaker {
	WEAKER_MEMORY = 1u << 0,   /* no memory limit */
	WEAKER_CPU = 1u << 1,      /* no cpu limit */
	WEAKER_PIDS = 1u << 2,     /* processes are limited by rlimit, per user id, not by cgroup */
	WEAKER_KILL = 1u << 3,     /* no cgroup.kill: the PID namespace and sweeps end things */
	WEAKER_IDMAP = 1u << 4,    /* the image's files belong to nobody inside; ids are the caller's own */
	WEAKER_LANDLOCK = 1u << 5, /* no Landlock behind the mount namespace */
};
uint32_t runner_weaker(const struct runner *r);
/* One sentence for one bit: what is missing and how to get it. */
const char *runner_weaker_text(enum runner_weaker bit);

/* The sandbox's limits as its cgroup files have them: a value, UINT64_MAX = none is set, known false = no file. */
struct runner_limit {
	bool known;
	uint64_t value;
};
struct runner_limits {
	struct runner_limit memory, pids, cpu_milli; /* bytes; processes; thousandths of a processor */
};
void runner_limits(const struct runner *r, struct runner_limits *ret);

/* Blocking: make the cgroup leaf of another exec and return its folder descriptor (owned by the
 * caller). -EOPNOTSUPP where the host has no writable cgroup v2: the agent then guards the exec's tree. */
int must_check runner_leaf(struct runner *r, uint32_t exec_id, int *ret_fd, struct err *e);
/* Blocking: kill every process of one exec (its leaf) and remove the leaf. Exec 1 is the first.
 * -EOPNOTSUPP as above: send RESET on its stream, the agent does it. */
int must_check runner_leaf_kill(struct runner *r, uint32_t exec_id, struct err *e);
/*
 * Without waiting: make the leaf of another exec; remove that of an exec that has ended, if nothing of it runs any more
 * (-EBUSY: something does). `told` is called once by a later runner_handle, or by a call that waits, with 0 or -errno and of
 * a leaf that was made its folder, which is the callee's; not at all when the sandbox ends before. -EAGAIN: RUNNER_LATER
 * are on their way, -EPIPE: the sandbox has ended.
 */
enum { RUNNER_LATER = 16 };
typedef void (*runner_told)(void *arg, uint32_t exec_id, int r, int fd);
int must_check runner_leaf_later(struct runner *r, uint32_t exec_id, runner_told told, void *arg);
int must_check runner_leaf_drop(struct runner *r, uint32_t exec_id, runner_told told, void *arg);
/* Blocking. */
int must_check runner_now(struct runner *r, struct runner_now *ret, struct err *e);
/* Blocking: processes killed by the memory limit so far. */
int must_check runner_oom_count(struct runner *r, uint32_t *ret, struct err *e);
/* Blocking: stop or continue every process of the sandbox. -EOPNOTSUPP without cgroup v2. */
int must_check runner_freeze(struct runner *r, bool on, struct err *e);
/* Blocking: its life span ends ms from now (at most SPEC_TIMEOUT_MAX_MS), whatever was said before; 0 = it has no end.
 * Needs runner_hold. */
int must_check runner_deadline(struct runner *r, uint64_t ms, struct err *e);
/* Order the end of the sandbox; does not wait. Idempotent. */
void runner_kill(struct runner *r);
/*
 * As runner_kill, for a caller in a hurry whose exec has ended: everything inside is sent SIGKILL and
 * the accounts, if wanted, are read here and now, and runner_wait does not wait. The runner removes what is left in
 * the following moments, by itself, also when the caller is gone by then. cpu_us may be 0; without
 * `account` nothing is read, for a caller that will not look.
 */
void runner_finish(struct runner *r, bool account);
/*
 * Wait until the sandbox has ended and everything of it is removed (order it with runner_kill or by
 * ending the agent). If the runner was lost: cleans up here, ret->lost.
 */
void runner_wait(struct runner *r, struct runner_end *ret);
void runner_free(struct runner *r); /* kills and waits if needed; accepts NULL */
/*
 * runner_free for a caller whose process exits next, and does nothing else but write what it has to
 * say. After runner_finish, where there is no runner yet, what is left is removed by a process that takes over
 * the caller's memory once the caller has exited: nothing is copied on the way to that exit. It lets go of last_fd
 * then (a descriptor of the caller's whose closing may take long; -1 = none).
 */
void runner_leave(struct runner *r, int last_fd);

/* Remove what dead runners left (cgroups, records). Returns how many sandboxes were swept. */
int runner_sweep(void);

#pragma once
/*
 * The agent's state and its frame dispatcher. What frames may cause in the world goes through
 * struct agent_ops, so that the dispatcher can be driven with hostile frames and no processes.
 */
#include "guest/child.h"
#include "guest/job.h"

enum { AGENT_JOBS_MAX = 256, SUDO_JOBS_MAX = 32 };

struct agent_ops {
	/* Start what an OPEN asked for. fds are ask_fds(q) descriptors, owned by the callee. A failure
	 * is recorded in the job (job_end_error). */
	void (*start)(struct agent *a, struct job *j, const struct ask *q, int *fds);
	void (*signal)(struct agent *a, struct job *j, int sig);
	void (*resize)(struct agent *a, struct job *j, uint16_t rows, uint16_t cols);
	void (*reset)(struct agent *a, struct job *j);
};

struct starter { /* see guest/starter.h */
	pid_t pid;   /* 0 = none */
	int fd;      /* orders; while there is one */
	bool busy;   /* it has not told yet that it is through with the last order */
	bool wanted;
};

/* Who asks from inside (guest/sudo.h). */
struct sudo {
	int listen_fd; /* -1 = nobody may */
	uid_t uid;     /* who may, besides uid 0 */
	struct job *jobs[SUDO_JOBS_MAX]; /* their callers wait; no holes */
	uint32_t n;
	uint64_t rest_ns; /* CLOCK_MONOTONIC: the listener is left alone until then; 0 = it is not */
};

struct agent {
	const struct agent_ops *ops;
	struct peer peer;
	struct job *jobs[AGENT_JOBS_MAX]; /* open streams, no holes */
	uint32_t jobs_n;
	uint32_t turn;       /* which job is served first, for fairness */
	struct job *guards;  /* closed jobs whose guard still has descendants */
	struct sudo sudo;
	struct child_rules rules;
	int leaf_fd;         /* for the first EXEC, -1 = none (any more) */
	int spent_leaf_fd;   /* of the last exec, still open; -1 = none */
	bool had_child;      /* something was started: PID 1 is no longer alone */
	struct starter starter;
	int null_fd;
	int oom_fd;          /* /proc/self/oom_score_adj, -1 = leave it */
	char oom_score[8];   /* the agent's own, as text */
	uint32_t shutdown_id; /* the SHUTDOWN stream, 0 = none: the agent ends when all children have */
	uint64_t shutdown_ns; /* CLOCK_MONOTONIC: no grace after this */
};

/* Decode and act on the frames that have arrived. 0, or -EPROTO: the connection must end. */
int must_check agent_dispatch(struct agent *a);
/* Send the RESULT of jobs that have ended and drop them. */
void agent_settle(struct agent *a);
struct job *agent_job(const struct agent *a, uint32_t id); /* NULL: no such stream */
uint64_t agent_now(void); /* CLOCK_MONOTONIC, ns */

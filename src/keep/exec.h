#pragma once
/*
 * Running a program in the sandbox, in a cgroup leaf of its own where the host has them, so that
 * everything it ever started can be killed. Standard streams are framed: they come through the
 * agent, which stops a program nobody reads, and after the last of them the result.
 */
#include "keep/timer.h"
#include "session/session.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct keep;

enum { SPARE_LEAVES = 4 };

struct exec_want {
	const char *cmd;
	const json_t *args; /* array of strings after cmd, NULL = none */
	json_t *env;	    /* object of strings, see exec_env */
	const char *cwd;    /* absolute */
	const char *user;   /* NULL = the sandbox's default */
	bool tty, in;	    /* a terminal; stdin follows */
	uint16_t rows, cols;
};

struct exec {
	struct keep *k;
	struct stream *s; /* NULL once its result came: the owner's `result` must call exec_ended */
	uint32_t leaf;
};

struct leaves { /* of the whole sandbox */
	uint32_t last;	/* made */
	struct {
		uint32_t nr;
		int fd; /* its folder */
	} spare[SPARE_LEAVES]; /* made ahead for the next execs */
	uint32_t spare_n, asked; /* asked: the runner makes them */
	struct timer chores; /* those of ended execs go, spare ones are made */
	uint32_t *over; /* of ended execs, not tried yet; owned */
	uint32_t over_n, over_cap;
	uint32_t *busy; /* of ended execs that left something running; owned */
	uint32_t busy_n, busy_cap;
};

/*
 * What every exec's environment begins with, the claim's variables, and these over it (an object of
 * strings; NULL = none). Owned by the caller; NULL = no memory.
 */
json_t *exec_env(const struct keep *k, const json_t *more);
/* 0, or -errno with nothing started. ops and arg as for session_open. */
int must_check exec_open(struct keep *k, const struct exec_want *w, const struct stream_ops *ops,
			 void *arg, struct exec *ret, struct err *e);
/* Kill it and everything it started. The result comes later. */
void exec_kill(struct exec *x);
/* Its result came. */
void exec_ended(struct exec *x);
void exec_done(struct keep *k); /* the sandbox ends */

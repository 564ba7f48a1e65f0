#pragma once
/* What the keeper's parts share. One struct keep per process, one thread. */
#include "keep/exec.h"
#include "keep/keep.h"
#include "keep/samples.h"
#include "keep/talk.h"
#include "keep/timer.h"
#include "keep/users.h"
#include "keep/watchers.h"
#include "session/session.h"
#include "sys/loop.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Of a sandbox that may reach something (outside.c). */
struct outside {
	struct source gate, inspect, records, door;
	struct buf log;	  /* the newest records, whole lines */
	size_t unread;	  /* bytes at its end that are no whole line yet, and so not counted */
	uint64_t refused; /* attempts, by all records so far */
};

struct keep {
	const struct keep_args *a;
	struct loop loop;
	struct source listen, agent, runner, signals;
	struct session *session;
	struct talk *talks; /* all, newest first */
	uint32_t talks_n;
	bool work; /* a talk is dirty */
	struct timers timers;
	struct outside outside;
	json_t *env; /* object of strings: variables of every exec, from the claim */
	uint64_t disk_used, disk_total; /* as last told */
	uint64_t cpu_us, cpu_at_ms;	/* at the last look */
	struct samples samples;
	uint64_t deadline_ms;		/* since the epoch, 0 = none set here */
	bool claimed, paused, dead;
	short agent_ready, agent_watched; /* events: of this turn; asked for */
	struct buf passwd; /* see users.c */
	uint64_t passwd_ms;
	struct leaves leaves;
	struct watchers watchers;
	struct proc *procs; /* see proc.c */
	uint32_t procs_n;
	uint64_t procs_last;
	struct code *code; /* see code.h; NULL = without */
};

/* The agent is gone: results that come now say nothing, and every talk is cut soon. */
static inline bool keep_lost(const struct keep *k) { return session_events(k->session) == 0; }

int must_check outside_open(struct keep *k);
/* The sandbox has ended: have the gate write its last records, and count them. Takes at most half a second. */
void outside_last(struct keep *k);
void outside_close(struct keep *k);

#define ROUTE(method, path, shape, user, fn) void fn(struct talk *t, json_t *req);
#include "keep/routes.def"
#undef ROUTE

#pragma once
/*
 * Between the files that make up launch.h: launch.c (phases), launch_exec.c (the command), launch_signals.c and
 * launch_loop.c (what is waited for). Single-threaded. Whoever meets a failure hands it to launch_fault, which ends
 * the sandbox; the first one is what is told.
 */
#include "cli/launch.h"
#include "cmd/progress.h"
#include "cmd/tty.h"
#include "spawn/door.h"

#include <signal.h>

enum launch_phase {
	PHASE_COPY_IN,	/* before the command */
	PHASE_RECEIPT,	/* the command was asked for, and measures its walls before it runs */
	PHASE_EXEC,	/* the command was asked for */
	PHASE_COPY_OUT, /* it ended; results are fetched */
	PHASE_ENDING,	/* the end was ordered; only output already taken is still delivered */
};

struct launch_run {
	struct launch *l;
	enum launch_phase phase;
	struct runner *runner;
	struct session *session;
	bool session_dead;
	struct stream *exec; /* NULL before and after */
	bool started;	     /* the command's process was */
	struct inlet in;
	struct tty tty;
	struct progress progress;
	struct gate *gate;     /* NULL = nothing may be reached */
	uint64_t gate_at_ms;   /* when to start it, if the sandbox asks nothing of it before; 0 = it is there, or is none */
	struct inspect *inspect; /* NULL = no rule is about HTTP */
	struct door *door;     /* of the gate */
	bool records_ended;
	uint64_t records_at_ms; /* not looked for before */
	int signal_fd;
	bool masked;	      /* old_mask is to be restored */
	sigset_t old_mask;
	uint64_t last_int_ms; /* monotonic time of the last SIGINT, 0 = none */
	uint64_t hold_at_ms;  /* when to fork the runner; 0 = it is there */
	bool forced;	      /* brig or the clock ended it: do not wait long for a slow reader */
	uint64_t drain_until_ms;
	struct err fault; /* the first failure of our own; kind NONE = none */
};

/* Order the end; output already taken is still delivered. Again: nothing. */
void launch_finish(struct launch_run *r);
/* End the sandbox because of a signal (or, SIGPIPE, because nobody reads). */
void launch_stop_by(struct launch_run *r, int sig);
void launch_fault(struct launch_run *r, const struct err *e);
/* After every step: the result and the ends of copies may come from any call into the session. */
void launch_next_phase(struct launch_run *r);
/* The command's measurements have something to say. */
void launch_on_report(struct launch_run *r);
/* Fork the runner when it is time, or now. */
void launch_hold(struct launch_run *r, bool now);

/* Start the gate, if it has not begun. */
void launch_gate(struct launch_run *r);

/* Ask for the command. 0 or -errno with *e. */
int launch_open_exec(struct launch_run *r, struct err *e);

/* Block what is to come by r->signal_fd; 0 or -errno with *e. Undone by the second, once. */
int launch_open_signals(struct launch_run *r, struct err *e);
void launch_close_signals(struct launch_run *r);
void launch_on_signals(struct launch_run *r);

/* Until all is delivered. */
void launch_loop(struct launch_run *r);

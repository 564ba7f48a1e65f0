#pragma once
/*
 * The code interpreter: contexts, each a process of brig-interp in the sandbox with one language
 * and its state, and the calls that run code in them. A call waits in its context's queue until
 * those before it have ended; the context says what happens (code_event.h), and that is its answer.
 *
 * Memory: one line of a context at a time may be larger than SMALL; the others wait with theirs, in
 * the session's windows.
 */
#include "keep/exec.h"
#include "keep/timer.h"

#include <jansson.h>
#include <stdbool.h>

struct keep;
struct talk;
struct code;

struct code_lang {
	const char *word, *alias;
	bool boot;
};

struct code_job { /* one POST /execute */
	struct code_job *next;
	struct code_context *c;
	struct talk *t;	 /* NULL = its client is gone */
	json_t *command; /* owned */
	struct buf out;	 /* events the client has no room for yet */
	struct timer keepalive;
	uint64_t said_ms;
};

struct code_context {
	struct code_context *next;
	struct code *code;
	char id[40];
	const struct code_lang *lang;
	char *cwd;	/* owned; NULL = the user's home is tried */
	struct exec x;	/* x.s NULL = not started */
	bool ready;	/* its kernel said so */
	bool set_up;	/* it was told its folder and environment */
	bool running;	/* the first of jobs */
	bool ending;	/* killed; its result comes */
	bool gone;	/* removed: nobody finds it any more */
	char died[512]; /* what brig-interp said of its kernel's end */
	struct buf line, commands;
	struct code_job *jobs;
	struct timer again; /* an interrupt is repeated until the execution ends */
};

struct code {
	struct keep *k;
	struct code_context *contexts; /* oldest first */
	struct code_context *big;      /* whose line may be larger than SMALL */
	struct stream *writing;	       /* brig-interp is on its way into the sandbox */
	off_t written;
	bool there; /* it is in the sandbox */
};

enum { CONTEXTS_MAX = 64, JOBS_MAX = 256, KEEPALIVE_MS = 5000, AGAIN_MS = 1000, SMALL = 64 * 1024 };

/* Make the contexts of the beginning, and start python's at once. 0, -ENOMEM; nothing happens when
 * keep_args has no interpreter. */
int must_check code_begin(struct keep *k);
void code_done(struct keep *k); /* the sandbox ends */
/* The first context is being started; its end, good or bad, answers who waits_code. */
bool code_comes(const struct keep *k);
void code_came(struct keep *k);

/* ---- code_context.c: processes ---- */
/* Go on with whatever c can do next. */
void code_pump(struct code_context *c);
/* End its process, if it has one; what runs is told. */
void code_stop(struct code_context *c);
/* It was marked `gone`: end its process and what waits, free it now or when its result comes. */
void code_forget(struct code_context *c);
void code_interrupt(struct code_context *c);
/* May take more of its output again. */
void code_resume(struct code_context *c);

/* ---- code_job.c: answers ---- */
/* For t, which is answered through it from here on; takes the command's reference. -ENOMEM. */
int must_check code_job_new(struct code_context *c, struct talk *t, json_t *command);
/* Tell its client. Takes the reference. */
void code_job_say(struct code_job *j, json_t *event);
/* The answer is whole; j is freed. */
void code_job_end(struct code_job *j);
/* It could not be run: 500, or an error event when the answer has begun. j is freed. */
void code_job_fail(struct code_job *j, const char *text);
void code_job_free(struct code_job *j);

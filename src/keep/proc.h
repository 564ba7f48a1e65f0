#pragma once
/*
 * Processes that clients started. One is known until FORGET_MS after its end, or until there are PROCS_MAX, so that a
 * client that comes late still learns how it ended. Its output goes to every client that looks at the moment
 * (its viewers): the slowest one holds it up, and with none it is thrown away.
 */
#include "keep/exec.h"
#include "keep/timer.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct keep;
struct talk;
struct proc;

enum { PROCS_MAX = 1024, FORGET_MS = 30000 };

/* Bytes for stdin, in order, of one client. */
struct feed {
	struct feed *next;
	uint8_t *data; /* owned */
	size_t n, off;
	bool eof; /* then close it */
	/* All was taken (err 0), or stdin is closed (EPIPE): f is unlinked, its owner frees it. */
	void (*done)(struct feed *f, int err);
	void *arg;
};

struct viewer {
	struct viewer *next;
	struct proc *p;
	struct talk *t;
	struct timer keepalive, deadline;
	uint64_t interval_ms, said_ms;
};

struct proc {
	struct proc *next;
	struct keep *k;
	struct exec x;
	uint64_t nr; /* never used twice */
	uint32_t pid;
	json_t *config; /* as the client gave it; owned */
	char *tag;	/* NULL = none; owned */
	bool tty, in;	/* in: stdin is open */
	bool started, ended;
	struct timer deadline, forget;
	struct viewer *viewers;
	struct feed *feeds;
	int exit_code;
	bool exited;
	char status[64];
};

/*
 * Start one for its first viewer, which is answered from here on. config and tag are taken. On
 * failure 0 is not returned, nothing was answered, and both are the caller's still.
 */
int must_check proc_start(struct talk *t, const struct exec_want *w, json_t *config, char *tag,
			  struct err *e);
/* t looks at p from now on; t is answered from here on. -ENOMEM. */
int must_check proc_view(struct proc *p, struct talk *t);
/* The process a request names by {"pid"} or {"tag"}, a living one first; NULL after the failure was
 * told. ended: one that has ended will do too. */
struct proc *proc_find(struct talk *t, json_t *req, bool ended);
/* NULL = it is forgotten. */
struct proc *proc_by_nr(const struct keep *k, uint64_t nr);
/* Queue for stdin; f->done is called, perhaps before this returns. */
void proc_feed(struct proc *p, struct feed *f);
/* Take a feed out of the queue without `done`. */
void proc_unfeed(struct proc *p, struct feed *f);
/* For proc.c: there is room again; stdin is closed. */
void proc_pump(struct proc *p);
void proc_feeds_end(struct proc *p);
void procs_done(struct keep *k); /* the sandbox ends */

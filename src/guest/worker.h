#pragma once
/*
 * File requests run in a worker: a child of PID 1 that has become the request's user, has no capability,
 * is under the command filter, and has nothing but descriptors 0 (CHAN_IN), 1 (CHAN_OUT) and its
 * status pipe. So the kernel decides every access as for a program of that user.
 */
#include "guest/ask.h"
#include "guest/user.h"

#include <stdnoreturn.h>

struct worker {
	const struct ask *ask;
	const struct user *user;
	int status;
	char path[4096]; /* the request's PATH, "" when absent */
};

/* Do what the request asks; returns the exit status of the worker (0 = done). */
int worker_run(const struct ask *q, const struct user *u, int status_fd);
/* True for kinds that run in a worker. */
bool worker_has(enum req_kind kind);

/* One function per kind: 0, or -errno after worker_fail. */
int fileop_stat(struct worker *w);
int fileop_list(struct worker *w);
int fileop_read(struct worker *w);
int fileop_write(struct worker *w);
int fileop_mkdir(struct worker *w);
int fileop_move(struct worker *w);
int fileop_remove(struct worker *w);
int watch_run(struct worker *w);
int pack_in_run(struct worker *w);
int pack_out_run(struct worker *w);
int metrics_run(struct worker *w);

/* Report a failure; returns -err. name may be NULL. */
int worker_fail(const struct worker *w, int err, const char *what, const char *name);
/* Write all of it to CHAN_OUT. 0 or -errno (nobody reads any more); reports by itself. */
int must_check worker_out(const struct worker *w, const void *p, size_t n);
/* Send one record made with a msg_writer over body; empties body. */
int must_check worker_record(const struct worker *w, struct msg_writer *rec);
/* mkdir -p of everything above path. 0 or -errno. path is restored. */
int must_check worker_parents(char *path);

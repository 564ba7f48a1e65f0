#pragma once
/*
 * Watching a folder: the agent's records made into events of E2B's shape. What a watch cannot hand
 * on stays with the session, which then grants the agent nothing.
 */
#include "keep/query.h"

#include <jansson.h>

struct watch;
struct watch_want {
	const char *path; /* absolute; a folder */
	const char *user;
	bool recursive, entries;
};
struct watch_ops {
	/* There is room for an event: false = not now, watch_resume comes. */
	bool (*room)(void *arg);
	/* The JSON text of one {"name","type","entry"?}. */
	void (*event)(void *arg, const char *text, size_t n);
	void (*started)(void *arg);
	/* It is over and w is freed: err 0 = the folder went, EOVERFLOW = events were lost. */
	void (*ended)(void *arg, int err, const char *text);
};
/* 0, or -errno and there is none. */
int must_check watch_open(struct keep *k, const struct watch_want *want,
			  const struct watch_ops *ops, void *arg, struct watch **ret,
			  struct err *e);
void watch_resume(struct watch *w); /* may call `ended` */
void watch_drop(struct watch *w);   /* no callbacks; accepts NULL */

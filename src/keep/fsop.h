#pragma once
/* A call that is answered by one or more file requests to the agent, one after the other. */
#include "keep/finfo.h"
#include "keep/priv.h"
#include "keep/query.h"

struct fsop {
	struct query q;
	struct talk *t;
	char path[4096], path2[4096]; /* absolute */
	bool flag;		      /* the handler's own */
};

/* For t, which is answered through it from here on, with a path of the request. NULL: the failure
 * was told. */
struct fsop *fsop_new(struct talk *t, const char *path);
/* Let go of it; t stays. */
void fsop_done(struct fsop *o);
/* Ask for something about path (and path2, NULL = none); then comes `done`, or o is gone and t was
 * answered. REQ_DETAIL is added for STAT. */
void fsop_ask(struct fsop *o, enum req_kind kind, uint64_t flags, const char *path,
	      const char *path2, void (*done)(struct query *q, const struct stream_result *r));
/* Let go of it and tell how the request failed. */
void fsop_fail(struct fsop *o, const struct stream_result *r);
/* The one record of an answer and the path it is of; o is let go. False: so it is, and the failure
 * was told. */
bool fsop_take(struct fsop *o, const struct stream_result *r, struct finfo *ret, char path[4096]);
/* The one record of an answer. -EPROTO. */
int must_check fsop_record(const struct fsop *o, struct finfo *ret);
/* STAT path without following it, answer {"entry":EntryInfo}, let go. */
void fsop_answer_entry(struct fsop *o, const char *path);

/* The failure of a file request, for the client. */
void fs_fail(struct talk *t, int err, const char *path, const char *text);

#pragma once
/* One request to the agent whose answer is short: it is kept and handed over when the request ends.
 */
#include "base/buf.h"
#include "session/session.h"

#include <stdbool.h>

struct keep;

struct query {
	struct keep *k;
	struct stream *s; /* NULL = not under way */
	struct buf out;	  /* CHAN_OUT */
	bool too_long;	  /* more came than max: the request was ended */
	/* The end. Not called when the agent is gone: then everything is cut. */
	void (*done)(struct query *q, const struct stream_result *r);
};

/* q is zeroed or done with. req as for session_open. 0, or -errno and nothing is under way. */
int must_check query_open(struct keep *k, struct query *q, const struct buf *req, size_t max,
			  void (*done)(struct query *q, const struct stream_result *r),
			  struct err *e);
/* End it without `done`, and free what was kept. */
void query_drop(struct query *q);

/* A request's fields: the message is begun here, and freed by the caller (buf_done). */
struct msg_writer query_begin(struct buf *b, enum req_kind kind, uint64_t flags, const char *user);

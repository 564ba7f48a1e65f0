#include "keep/query.h"

#include "keep/priv.h"
#include "wire/frame.h"

#include <errno.h>

/* The agent is hostile: what it sends is bounded here and read by the callers. */

static ssize_t on_data(void *arg, struct stream *s, uint8_t chan, const void *p, size_t n)
{
	struct query *q = arg;

	if (chan == CHAN_OUT && !q->too_long && buf_put(&q->out, p, n) < 0) {
		q->too_long = true;
		stream_reset(s);
	}
	return (ssize_t)n;
}

static void on_result(void *arg, struct stream *s, const struct stream_result *r)
{
	struct query *q = arg;

	(void)s;
	q->s = NULL;
	if (!keep_lost(q->k))
		q->done(q, r);
}

static const struct stream_ops ops = {.data = on_data, .result = on_result};

int query_open(struct keep *k, struct query *q, const struct buf *req, size_t max,
	       void (*done)(struct query *q, const struct stream_result *r), struct err *e)
{
	q->k = k;
	q->done = done;
	q->too_long = false;
	buf_done(&q->out);
	buf_init(&q->out, max);
	return session_open(k->session, req, NULL, 0, &ops, q, &q->s, e);
}

void query_drop(struct query *q)
{
	if (q->s != NULL) {
		stream_reset(q->s);
		stream_abandon(q->s);
		q->s = NULL;
	}
	buf_done(&q->out);
}

struct msg_writer query_begin(struct buf *b, enum req_kind kind, uint64_t flags, const char *user)
{
	struct msg_writer w = {.b = b};

	buf_init(b, FRAME_OPEN_MAX);
	msg_u64(&w, F_KIND, kind);
	if (flags != 0)
		msg_u64(&w, F_FLAGS, flags);
	if (user != NULL)
		msg_str(&w, F_USER, user);
	return w;
}

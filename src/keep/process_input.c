#include "base/cleanup.h"
#include "wire/envelope.h"
#include "keep/priv.h"
#include "keep/proc.h"
#include "keep/rpc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * process.Process: SendInput, CloseStdin, StreamInput. An answer comes when the agent has taken the
 * bytes, so a program that does not read holds up its writers, and each of them holds no more than
 * one request.
 */

struct input {
	struct feed f;
	struct talk *t;
	uint64_t nr;  /* of the process; 0 = none chosen */
	bool queued;  /* f is */
	bool feeding; /* proc_feed is under way: what it tells is looked at when it returns */
	int err;
	struct buf left; /* StreamInput: bytes of envelopes not looked at */
	bool flow, ended;
};

static void input_free(struct talk *t)
{
	struct input *in = t->arg;
	struct proc *p = in->queued ? proc_by_nr(t->k, in->nr) : NULL;

	t->ops = NULL;
	t->arg = NULL;
	if (p != NULL)
		proc_unfeed(p, &in->f);
	buf_done(&in->left);
	free(in->f.data);
	free(in);
}

/* Let go of it and answer. */
static void finish(struct input *in, enum fail code, const char *why)
{
	struct talk *t = in->t;

	input_free(t);
	if (why != NULL)
		fail(t, code, "%s", why);
	else
		rpc_empty(t);
}

static const char closed_text[] = "error writing to the process: stdin not enabled or closed";

/* The bytes of a request's `input` into in->f; false after the failure was told and in is gone. */
static bool take_input(struct input *in, const struct proc *p, const json_t *req)
{
	const json_t *o = rpc_get(req, "input", NULL);
	const json_t *pty = rpc_get(o, "pty", NULL), *plain = rpc_get(o, "stdin", NULL);
	const char *why = NULL;

	if (plain != NULL && p->tty)
		why = "error writing to the process: it has a terminal, input should be written to "
		      "the pty";
	else if (pty != NULL && !p->tty)
		why = "error writing to the process: it has no terminal";
	else if (!p->in)
		why = closed_text;
	if (why != NULL) {
		finish(in, FAIL_INTERNAL, why);
		return false;
	}
	free(in->f.data);
	in->f.off = in->f.n = 0;
	in->f.data = rpc_bytes(pty != NULL ? pty : plain, &in->f.n);
	if (in->f.data == NULL)
		finish(in, FAIL_INVALID_ARGUMENT, "input: stdin or pty with base64 is wanted");
	else
		return true;
	return false;
}

static void next_envelope(struct input *in);

static void on_fed(struct feed *f, int err)
{
	struct input *in = f->arg;

	in->queued = false;
	in->err = err;
	if (in->feeding)
		return;
	if (err != 0)
		finish(in, FAIL_INTERNAL, closed_text);
	else if (in->flow)
		next_envelope(in);
	else
		finish(in, FAIL_INTERNAL, NULL);
}

/* 1: all was taken, 0: on_fed comes later, -EPIPE. */
static int feed(struct input *in, struct proc *p)
{
	in->queued = in->feeding = true;
	in->err = 0;
	proc_feed(p, &in->f);
	in->feeding = false;
	return in->queued ? 0 : in->err != 0 ? -EPIPE : 1;
}

static void feed_unary(struct input *in, struct proc *p)
{
	int r = feed(in, p);

	if (r != 0)
		finish(in, FAIL_INTERNAL, r < 0 ? closed_text : NULL);
}

static const struct talk_ops unary_ops = {.closed = input_free};

static struct input *input_new(struct talk *t, const struct talk_ops *ops)
{
	struct input *in = calloc(1, sizeof(*in));

	if (in == NULL) {
		talk_cut(t);
		return NULL;
	}
	in->t = t;
	in->f.arg = in;
	in->f.done = on_fed;
	t->ops = ops;
	t->arg = in;
	return in;
}

void process_send_input(struct talk *t, json_t *req)
{
	struct proc *p = proc_find(t, req, false);
	struct input *in = p != NULL ? input_new(t, &unary_ops) : NULL;

	if (in == NULL)
		return;
	in->nr = p->nr;
	if (take_input(in, p, req))
		feed_unary(in, p);
}

void process_close_stdin(struct talk *t, json_t *req)
{
	struct proc *p = proc_find(t, req, false);
	struct input *in;

	if (p == NULL)
		return;
	if (p->tty) {
		fail(t, FAIL_INTERNAL,
		     "error closing stdin: a terminal's stays open; send Ctrl+D (0x04) instead");
		return;
	}
	if (!p->in) {
		rpc_empty(t);
		return;
	}
	in = input_new(t, &unary_ops);
	if (in == NULL)
		return;
	in->nr = p->nr;
	in->f.eof = true;
	feed_unary(in, p);
}

/* ---- StreamInput ---- */

/* False: `in` is gone. */
static bool take_start(struct input *in, json_t *start)
{
	struct talk *t = in->t;
	const struct proc *p = proc_find(t, start, false);

	if (p == NULL) {
		input_free(t);
		return false;
	}
	in->nr = p->nr;
	return true;
}

static bool take_data(struct input *in, const json_t *data)
{
	struct proc *p = proc_by_nr(in->t->k, in->nr);

	if (p == NULL || p->ended) {
		finish(in, FAIL_NOT_FOUND, "the process has ended");
		return false;
	}
	if (!take_input(in, p, data))
		return false;
	if (feed(in, p) < 0) {
		finish(in, FAIL_INTERNAL, closed_text);
		return false;
	}
	return true;
}

static bool take_message(struct input *in, const json_t *req)
{
	json_t *start = rpc_get(req, "start", NULL), *data = rpc_get(req, "data", NULL);

	if (start != NULL && in->nr == 0)
		return take_start(in, start);
	if (data != NULL && in->nr != 0)
		return take_data(in, data);
	if (rpc_get(req, "keepalive", NULL) != NULL && in->nr != 0)
		return true;
	finish(in, FAIL_INVALID_ARGUMENT,
	       "a stream of input begins with start, then data or keepalive follow");
	return false;
}

static void flow_end(struct input *in)
{
	struct talk *t = in->t;

	input_free(t);
	stream_begin(t);
	stream_json(t, json_object());
	stream_close(t);
}

static void next_envelope(struct input *in)
{
	struct talk *t = in->t;
	struct envelope e;
	json_t *req;
	int used = 1;
	bool ok;

	while (!in->queued) {
		used = envelope_next(buf_head(&in->left), in->left.len, BODY_MAX, &e);
		if (used < 0 || (used > 0 && e.flags != 0) ||
		    (used == 0 && in->ended && in->left.len > 0)) {
			finish(in, FAIL_INVALID_ARGUMENT, "not an envelope of a stream of input");
			return;
		}
		if (used == 0)
			break;
		req = json_loadb((const char *)e.p, e.n, JSON_REJECT_DUPLICATES, NULL);
		buf_consume(&in->left, (size_t)used);
		ok = take_message(in, req);
		json_decref(req);
		if (!ok)
			return;
	}
	if (used == 0 && in->ended)
		flow_end(in);
	else if (!in->queued)
		talk_resume(t);
}

static size_t on_data(struct talk *t, const void *p, size_t n)
{
	struct input *in = t->arg;

	if (in->queued)
		return 0;
	if (buf_put(&in->left, p, n) < 0)
		finish(in, FAIL_INVALID_ARGUMENT, "an envelope is too large");
	else
		next_envelope(in);
	return n;
}

static void on_end(struct talk *t)
{
	struct input *in = t->arg;

	in->ended = true;
	if (!in->queued)
		next_envelope(in);
}

static const struct talk_ops flow_ops = {.data = on_data, .end = on_end, .closed = input_free};

void process_stream_input(struct talk *t, json_t *req)
{
	struct input *in = input_new(t, &flow_ops);

	(void)req;
	if (in == NULL)
		return;
	in->flow = true;
	buf_init(&in->left, BODY_MAX + ENVELOPE_HEADER + CALL_PIECE_MAX);
}

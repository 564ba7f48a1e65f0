#include "base/num.h"
#include "keep/files.h"
#include "keep/fsop.h"
#include "parse/uri.h"
#include "wire/frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * GET and POST /files/pack: a file or a folder with all that is in it, as the pack stream of
 * docs/pack.md. brig's own (E2B has files one by one only): the agent packs and unpacks, as for
 * `brig run --file` and `--out`, and the keeper passes the bytes on, as fast as the slower side
 * takes them. Neither side's stream is looked at here: each checks the other's.
 */

struct pack {
	struct talk *t;
	struct stream *s;
	bool over;	 /* of a POST: the body is whole */
	char path[4096]; /* absolute */
};

static void pack_free(struct talk *t)
{
	struct pack *p = t->arg;

	t->ops = NULL;
	t->arg = NULL;
	if (p->s != NULL) {
		stream_reset(p->s);
		stream_abandon(p->s);
	}
	free(p);
}

static struct pack *pack_new(struct talk *t, const struct talk_ops *ops)
{
	char path[4096];
	struct pack *p;

	if (uri_get(uri_query(t->head.target), "path", path, sizeof(path)) <= 0) {
		fail_status(t, 400, "path is missing");
		return NULL;
	}
	p = calloc(1, sizeof(*p));
	if (p == NULL || users_path(t->user, path, p->path) < 0) {
		if (p != NULL)
			fail_status(t, 400, "path: longer than 4095 bytes");
		else
			talk_cut(t);
		free(p);
		return NULL;
	}
	p->t = t;
	t->ops = ops;
	t->arg = p;
	return p;
}

/* False: p is gone. */
static bool pack_open(struct pack *p, enum req_kind kind, uint64_t flags,
		      const struct stream_ops *ops)
{
	struct talk *t = p->t;
	struct err e = ERR_INIT;
	struct buf req;
	struct msg_writer w = query_begin(&req, kind, flags, t->user->spec);
	int r;

	msg_str(&w, F_PATH, p->path);
	r = w.err < 0 ? w.err : session_open(t->k->session, &req, NULL, 0, ops, p, &p->s, &e);
	buf_done(&req);
	if (r == 0)
		return true;
	pack_free(t);
	fail(t, FAIL_RESOURCE_EXHAUSTED, "%s", e.msg);
	return false;
}

/* Tell how, and let go of it. */
static void pack_failed(struct pack *p, const struct stream_result *r)
{
	struct talk *t = p->t;
	/* done before the body's end: something stands behind the stream's */
	int err = r->how == HOW_ERROR ? r->err : r->how == HOW_DONE ? EPROTO : EIO;
	char path[4096];

	memcpy(path, p->path, sizeof(path));
	pack_free(t);
	if (t->head_sent)
		talk_cut(t);
	else if (err == EPROTO)
		fail_status(t, 400, "the body is not one whole pack stream");
	else
		files_fail(t, err, path, r->text);
}

/* The agent has ended it. False: it failed, and that is told, or nobody is left to tell. */
static bool pack_ended(struct pack *p, const struct stream_result *r, bool whole)
{
	p->s = NULL;
	if (keep_lost(p->t->k))
		return false;
	if (r->how == HOW_DONE && whole)
		return true;
	pack_failed(p, r);
	return false;
}

/* ---- out ---- */

static void begin_answer(struct talk *t)
{
	static const struct call_field f[] = {{"content-type", "application/x-brig-pack"},
					      {"x-content-type-options", "nosniff"}};

	talk_reply(t, 200, f, ARRAY_LEN(f));
}

static ssize_t on_out(void *arg, struct stream *s, uint8_t chan, const void *b, size_t n)
{
	struct pack *p = arg;
	size_t part = MIN(n, talk_room(p->t));

	(void)s;
	if (chan != CHAN_OUT)
		return (ssize_t)n;
	if (part == 0)
		return 0;
	if (!p->t->head_sent)
		begin_answer(p->t);
	talk_send(p->t, b, part);
	return (ssize_t)part;
}

static void on_packed(void *arg, struct stream *s, const struct stream_result *r)
{
	struct pack *p = arg;
	struct talk *t = p->t;

	(void)s;
	if (!pack_ended(p, r, true))
		return;
	if (!t->head_sent)
		begin_answer(t);
	pack_free(t);
	talk_end(t);
}

static const struct stream_ops out_ops = {.data = on_out, .result = on_packed};

static void on_writable(struct talk *t)
{
	const struct pack *p = t->arg;

	if (p->s != NULL)
		stream_resume(p->s, CHAN_OUT);
}

void files_pack_get(struct talk *t, json_t *req)
{
	static const struct talk_ops ops = {.writable = on_writable, .closed = pack_free};
	struct pack *p = pack_new(t, &ops);

	(void)req;
	if (p != NULL)
		(void)pack_open(p, REQ_PACK_OUT, 0, &out_ops);
}

/* ---- in ---- */

static size_t on_body(struct talk *t, const void *b, size_t n)
{
	const struct pack *p = t->arg;
	ssize_t took = p->s != NULL ? stream_write(p->s, b, n) : 0;

	return took < 0 ? n : (size_t)took; /* its result says why it wants no more */
}

static void on_body_end(struct talk *t)
{
	struct pack *p = t->arg;

	p->over = true;
	if (p->s != NULL)
		stream_eof(p->s);
}

static void on_room(void *arg, struct stream *s)
{
	const struct pack *p = arg;

	(void)s;
	talk_resume(p->t);
}

static void on_unpacked(void *arg, struct stream *s, const struct stream_result *r)
{
	struct pack *p = arg;
	struct talk *t = p->t;

	(void)s;
	if (!pack_ended(p, r, p->over))
		return;
	pack_free(t);
	talk_status(t, 204);
}

static const struct stream_ops in_ops = {.writable = on_room, .result = on_unpacked};

void files_pack_post(struct talk *t, json_t *req)
{
	static const struct talk_ops ops = {
	    .data = on_body, .end = on_body_end, .closed = pack_free};
	struct pack *p = pack_new(t, &ops);

	(void)req;
	if (p != NULL)
		(void)pack_open(p, REQ_PACK_IN, REQ_PARENTS, &in_ops);
}

#include "keep/files.h"
#include "keep/fsop.h"
#include "wire/frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * POST /files/compose {"source_paths", "destination"}: one file of several, which are removed
 * afterwards. Each is read (READ) into the one WRITE, at the pace of both; nothing is kept but what
 * the session keeps. The destination appears, or is replaced, when it is whole, and then the
 * sources go: a failure before leaves everything as it was.
 */

enum { SOURCES_MAX = 1024 };

struct compose {
	struct query q; /* removes */
	struct talk *t;
	struct stream *in, *out; /* NULL = ended, or not begun */
	json_t *sources;	 /* owned */
	size_t at;		 /* the one under way */
	char to[4096], from[4096];
};

static void drop_stream(struct stream **s)
{
	if (*s != NULL) {
		stream_reset(*s);
		stream_abandon(*s);
	}
	*s = NULL;
}

static void compose_free(struct talk *t)
{
	struct compose *c = t->arg;

	t->ops = NULL;
	t->arg = NULL;
	query_drop(&c->q);
	drop_stream(&c->in);
	drop_stream(&c->out);
	json_decref(c->sources);
	free(c);
}

static const struct talk_ops talk_ops = {.closed = compose_free};

static void give_up(struct compose *c, int err, const char *path, const char *text)
{
	struct talk *t = c->t;
	char copy[4096];

	memcpy(copy, path, sizeof(copy));
	compose_free(t);
	files_fail(t, err, copy, text);
}

static void refuse(struct compose *c, const struct err *e)
{
	struct talk *t = c->t;

	compose_free(t);
	fail(t, FAIL_RESOURCE_EXHAUSTED, "%s", e->msg);
}

/* The path of source i; checked when the request came. */
static void source(struct compose *c, size_t i)
{
	const char *s = json_string_value(json_array_get(c->sources, i));

	(void)!users_path(c->t->user, s, c->from);
}

/* ---- afterwards ---- */

static void answer(struct compose *c)
{
	struct talk *t = c->t;
	struct buf b;

	buf_init(&b, 64 * 1024);
	if (files_written(t, c->to, &b) < 0) {
		talk_cut(t);
	} else {
		compose_free(t);
		talk_answer(t, 200, "application/json", &b);
	}
	buf_done(&b);
}

static void remove_next(struct compose *c);

static void on_removed(struct query *q, const struct stream_result *r)
{
	struct compose *c = (struct compose *)q;

	if (r->how != HOW_DONE && r->err != ENOENT) { /* the same source twice */
		give_up(c, r->how == HOW_ERROR ? r->err : EIO, c->from, r->text);
		return;
	}
	c->at++;
	remove_next(c);
}

static void remove_next(struct compose *c)
{
	struct err e = ERR_INIT;
	struct msg_writer w;
	struct buf req;
	int r;

	if (c->at == json_array_size(c->sources)) {
		answer(c);
		return;
	}
	source(c, c->at);
	w = query_begin(&req, REQ_REMOVE, 0, c->t->user->spec);
	msg_str(&w, F_PATH, c->from);
	msg_str(&w, F_PATH2, c->to); /* which a link may have made one of the sources */
	r = w.err < 0 ? w.err : query_open(c->t->k, &c->q, &req, 4096, on_removed, &e);
	buf_done(&req);
	if (r < 0)
		refuse(c, &e);
}

/* ---- bytes ---- */

static ssize_t on_data(void *arg, struct stream *s, uint8_t chan, const void *p, size_t n)
{
	struct compose *c = arg;
	ssize_t took;

	(void)s;
	if (chan != CHAN_OUT || c->out == NULL)
		return (ssize_t)n;
	took = stream_write(c->out, p, n);
	return took < 0 ? (ssize_t)n : took; /* the result of the WRITE says why */
}

static void read_next(struct compose *c);

static void on_read(void *arg, struct stream *s, const struct stream_result *r)
{
	struct compose *c = arg;

	(void)s;
	c->in = NULL;
	if (keep_lost(c->t->k))
		return;
	if (r->how != HOW_DONE) {
		give_up(c, r->how == HOW_ERROR ? r->err : EIO, c->from, r->text);
		return;
	}
	c->at++;
	read_next(c);
}

static void on_room(void *arg, struct stream *s)
{
	const struct compose *c = arg;

	(void)s;
	if (c->in != NULL)
		stream_resume(c->in, CHAN_OUT);
}

static void on_written(void *arg, struct stream *s, const struct stream_result *r)
{
	struct compose *c = arg;

	(void)s;
	c->out = NULL;
	if (keep_lost(c->t->k))
		return;
	if (r->how != HOW_DONE || c->in != NULL) {
		give_up(c, r->how == HOW_ERROR ? r->err : EIO, c->to, r->text);
		return;
	}
	c->at = 0;
	remove_next(c);
}

static const struct stream_ops read_ops = {.data = on_data, .result = on_read};
static const struct stream_ops write_ops = {.writable = on_room, .result = on_written};

static void read_next(struct compose *c)
{
	struct err e = ERR_INIT;
	struct msg_writer w;
	struct buf req;
	int r;

	if (c->at == json_array_size(c->sources)) {
		stream_eof(c->out);
		return;
	}
	source(c, c->at);
	w = query_begin(&req, REQ_READ, 0, c->t->user->spec);
	msg_str(&w, F_PATH, c->from);
	r = w.err < 0 ? w.err
		      : session_open(c->t->k->session, &req, NULL, 0, &read_ops, c, &c->in, &e);
	buf_done(&req);
	if (r < 0)
		refuse(c, &e);
}

/* ---- begin ---- */

/* NULL, or what is wrong with the request. */
static const char *check(struct compose *c, const json_t *req)
{
	const char *to = json_string_value(json_object_get(req, "destination"));
	size_t n = json_array_size(c->sources);

	if (to == NULL || *to == '\0' || to[strlen(to) - 1] == '/' ||
	    users_path(c->t->user, to, c->to) < 0)
		return "destination: the path of a file is wanted, of at most 4095 bytes";
	if (n == 0 || n > SOURCES_MAX)
		return "source_paths: a list of 1 to 1024 paths is wanted";
	for (size_t i = 0; i < n; i++) {
		const char *s = json_string_value(json_array_get(c->sources, i));

		if (s == NULL || *s == '\0' || users_path(c->t->user, s, c->from) < 0)
			return "source_paths: each is the path of a file, of at most 4095 bytes";
		if (strcmp(c->from, c->to) == 0)
			return "destination: it is one of the sources";
	}
	return NULL;
}

void files_compose(struct talk *t, json_t *req)
{
	struct compose *c = calloc(1, sizeof(*c));
	struct err e = ERR_INIT;
	struct msg_writer w;
	const char *wrong;
	struct buf msg;
	int r;

	if (c == NULL) {
		talk_cut(t);
		return;
	}
	c->t = t;
	c->sources = json_incref(json_object_get(req, "source_paths"));
	t->ops = &talk_ops;
	t->arg = c;
	wrong = check(c, req);
	if (wrong != NULL) {
		compose_free(t);
		fail_status(t, 400, "%s", wrong);
		return;
	}
	w = query_begin(&msg, REQ_WRITE, REQ_PARENTS, t->user->spec);
	msg_str(&w, F_PATH, c->to);
	r = w.err < 0 ? w.err
		      : session_open(t->k->session, &msg, NULL, 0, &write_ops, c, &c->out, &e);
	buf_done(&msg);
	if (r < 0)
		refuse(c, &e);
	else
		read_next(c);
}

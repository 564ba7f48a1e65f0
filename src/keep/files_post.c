#include "base/num.h"
#include "keep/files.h"
#include "keep/fsop.h"
#include "keep/inflate.h"
#include "keep/text.h"
#include "parse/multipart.h"
#include "parse/uri.h"
#include "wire/frame.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * POST /files: a form with files, or one file as it is; either may be packed with gzip. Files are
 * written one after the other, each by a WRITE of its own, as the bytes come: what the agent does
 * not take at once is held, one piece at most, and the client waits.
 */

enum { FILES_MAX = 4096 };

struct target {
	struct target *next;
	char path[]; /* absolute */
};

struct post {
	struct talk *t;
	struct stream *s;	/* the WRITE under way */
	struct inflate *gzip;	/* NULL = not packed */
	struct multipart *form; /* NULL = one file */
	struct buf hold;	/* of the file, not taken by the agent yet */
	struct target *targets; /* newest first */
	uint32_t targets_n;
	struct buf answer;
	bool closing;  /* of the file all is there: its end is told when hold is empty */
	bool waiting;  /* for its result */
	bool skipping; /* a part that is no file */
	bool over;     /* the form's last delimiter came, or the file's last byte */
	bool body_ended, driving;
	char path[4096]; /* of the query; "" = none */
};

static void post_free(struct talk *t)
{
	struct post *p = t->arg;

	t->ops = NULL;
	t->arg = NULL;
	if (p->s != NULL) {
		stream_reset(p->s);
		stream_abandon(p->s);
	}
	while (p->targets != NULL) {
		struct target *x = p->targets;

		p->targets = x->next;
		free(x);
	}
	inflate_free(p->gzip);
	free(p->form);
	buf_done(&p->hold);
	buf_done(&p->answer);
	free(p);
}

static void refuse(struct post *p, unsigned status, const char *why)
{
	struct talk *t = p->t;

	post_free(t);
	fail_status(t, status, "%s", why);
}

/* ---- one file ---- */

static void drive(struct post *p);

static void on_written(void *arg, struct stream *s, const struct stream_result *r)
{
	struct post *p = arg;
	struct talk *t = p->t;
	bool early = !p->waiting;
	char path[4096];

	(void)s;
	p->s = NULL;
	if (keep_lost(t->k))
		return;
	p->waiting = false;
	if (r->how != HOW_DONE || early) {
		(void)snprintf(path, sizeof(path), "%s", p->targets->path);
		post_free(t);
		files_fail(t, r->how == HOW_ERROR ? r->err : EIO, path, r->text);
		return;
	}
	if (text_put(&p->answer, p->answer.len == 0 ? "[" : ",") < 0 ||
	    files_written(t, p->targets->path, &p->answer) < 0) {
		refuse(p, 500, "out of memory");
		return;
	}
	if (!p->driving)
		drive(p);
}

static void on_room(void *arg, struct stream *s)
{
	struct post *p = arg;

	(void)s;
	if (!p->driving)
		drive(p);
}

static const struct stream_ops write_ops = {.writable = on_room, .result = on_written};

/* Whether this target is new; it is remembered. */
static int remember(struct post *p, const char *path)
{
	size_t n = strlen(path) + 1;
	struct target *x;

	for (x = p->targets; x != NULL; x = x->next)
		if (strcmp(x->path, path) == 0)
			return -EEXIST;
	x = p->targets_n < FILES_MAX ? malloc(sizeof(*x) + n) : NULL;
	if (x == NULL)
		return -ENOMEM;
	memcpy(x->path, path, n);
	x->next = p->targets;
	p->targets = x;
	p->targets_n++;
	return 0;
}

/* False: refused, p is gone. */
static bool open_file(struct post *p, const char *given)
{
	struct talk *t = p->t;
	struct err e = ERR_INIT;
	char path[4096];
	struct msg_writer w;
	struct buf req;
	int r = users_path(t->user, given, path);

	if (r < 0 || *given == '\0' || given[strlen(given) - 1] == '/') {
		refuse(p, 400, "a file needs a path, of at most 4095 bytes");
		return false;
	}
	r = remember(p, path);
	if (r < 0) {
		refuse(p, 400,
		       r == -EEXIST ? "you cannot upload multiple files to the same path"
				    : "more files than one request may have");
		return false;
	}
	w = query_begin(&req, REQ_WRITE, REQ_PARENTS | REQ_IN_PLACE, t->user->spec);
	msg_str(&w, F_PATH, path);
	r = files_metadata(t, &w);
	if (r == 0)
		r = w.err < 0
			? w.err
			: session_open(t->k->session, &req, NULL, 0, &write_ops, p, &p->s, &e);
	buf_done(&req);
	if (r < 0)
		refuse(p, r == -EINVAL ? 400 : 429,
		       r == -EINVAL
			   ? "metadata: printable ASCII, a key of 1 to 246 bytes, 4096 in all"
			   : e.msg);
	return r == 0;
}

/* Give the agent what it takes; false: it does not take all now. */
static bool flush(struct post *p)
{
	while (p->hold.len > 0 && p->s != NULL) {
		ssize_t n = stream_write(p->s, buf_head(&p->hold), p->hold.len);

		if (n == 0)
			return false;
		if (n < 0)
			n = (ssize_t)p->hold.len; /* its result says why */
		buf_consume(&p->hold, (size_t)n);
	}
	if (p->closing && p->s != NULL) {
		p->closing = false;
		p->waiting = true;
		stream_eof(p->s);
	}
	return !p->waiting;
}

/* ---- the body ---- */

static bool take_part(struct post *p)
{
	struct multipart *m = p->form;

	p->skipping = strcmp(m->name, "file") != 0;
	return p->skipping || open_file(p, p->path[0] != '\0' ? p->path : m->filename);
}

/* Plain bytes of the body: how many were taken, -1 = p is gone. */
static ssize_t take(struct post *p, const uint8_t *b, size_t n)
{
	enum multipart_event e = MULTIPART_MORE;
	ssize_t r;

	if (p->form == NULL) {
		r = (ssize_t)MIN(n, buf_room(&p->hold));
		return buf_put(&p->hold, b, (size_t)r) < 0 ? 0 : r;
	}
	r = multipart_step(p->form, b, n, &e);
	if (r < 0) {
		refuse(p, 400, "the form is malformed");
		return -1;
	}
	if (e == MULTIPART_PART && !take_part(p))
		return -1;
	if (e == MULTIPART_DATA && !p->skipping &&
	    buf_put(&p->hold, p->form->data, p->form->data_n) < 0) {
		refuse(p, 500, "out of memory");
		return -1;
	}
	if (e == MULTIPART_PART_END)
		p->closing = !p->skipping;
	if (e == MULTIPART_END)
		p->over = true;
	return r;
}

/* Take in bytes as far as they can be; how many, -1 = p is gone. */
static ssize_t take_all(struct post *p, const uint8_t *b, size_t n)
{
	size_t took = 0;

	while (flush(p) && p->hold.len == 0 && (took < n || inflate_pending(p->gzip))) {
		const uint8_t *plain = b + took;
		size_t plain_n = n - took;
		ssize_t r;

		if (p->gzip != NULL) {
			r = inflate_step(p->gzip, b + took, n - took, &plain, &plain_n);
			if (r < 0) {
				refuse(p, 400, "the body is not gzip");
				return -1;
			}
			took += (size_t)r;
			if (plain_n == 0)
				continue;
		}
		r = take(p, plain, plain_n);
		if (r < 0)
			return -1;
		if (p->gzip != NULL)
			inflate_taken(p->gzip, (size_t)r);
		else
			took += (size_t)r;
	}
	return (ssize_t)took;
}

static void complete(struct post *p)
{
	struct talk *t = p->t;
	struct buf b;

	if (p->answer.len == 0) {
		refuse(p, 400, "no file in the request");
		return;
	}
	if (text_put(&p->answer, "]") < 0) {
		refuse(p, 500, "out of memory");
		return;
	}
	b = p->answer;
	p->answer = (struct buf){.max = 0};
	post_free(t);
	talk_answer(t, 200, "application/json", &b);
}

/* Something moved: what is left, then the end. */
static void drive(struct post *p)
{
	struct talk *t = p->t;

	p->driving = true;
	if (take_all(p, NULL, 0) < 0)
		return;
	p->driving = false;
	if (!p->body_ended) {
		talk_resume(t);
		return;
	}
	if (p->hold.len > 0 || p->waiting || inflate_pending(p->gzip))
		return;
	if (p->gzip != NULL && !inflate_ended(p->gzip)) {
		refuse(p, 400, "the body ends within its gzip");
	} else if (p->form == NULL && !p->over) {
		p->over = p->closing = true;
		drive(p);
	} else if (!p->over) {
		refuse(p, 400, "the form has no end");
	} else {
		complete(p);
	}
}

static size_t on_data(struct talk *t, const void *b, size_t n)
{
	struct post *p = t->arg;
	ssize_t r;

	p->driving = true;
	r = take_all(p, b, n);
	if (r < 0)
		return n;
	p->driving = false;
	return (size_t)r;
}

static void on_end(struct talk *t)
{
	struct post *p = t->arg;

	p->body_ended = true;
	drive(p);
}

static const struct talk_ops ops = {.data = on_data, .end = on_end, .closed = post_free};

/* What the head says of the body: 0, or the status that refuses it. */
static unsigned shape(struct post *p)
{
	const char *type = call_find(&p->t->head, "content-type");
	const char *coding = call_find(&p->t->head, "content-encoding");

	if (coding != NULL && strcmp(coding, "gzip") == 0) {
		p->gzip = inflate_new();
		if (p->gzip == NULL)
			return 500;
	} else if (coding != NULL && strcmp(coding, "identity") != 0 && *coding != '\0') {
		return 415;
	}
	if (type != NULL && strncmp(type, "application/octet-stream", 24) == 0)
		return 0;
	p->form = malloc(sizeof(*p->form));
	if (p->form == NULL)
		return 500;
	return type == NULL || multipart_init(p->form, type) < 0 ? 415 : 0;
}

void files_post(struct talk *t, json_t *req)
{
	struct post *p = calloc(1, sizeof(*p));
	unsigned status;
	int n;

	(void)req;
	if (p == NULL) {
		talk_cut(t);
		return;
	}
	p->t = t;
	buf_init(&p->hold, 2 * CALL_PIECE_MAX);
	buf_init(&p->answer, 64 * 1024 * 1024);
	t->ops = &ops;
	t->arg = p;
	n = uri_get(uri_query(t->head.target), "path", p->path, sizeof(p->path));
	if (n < 0)
		p->path[0] = '\0';
	status = n < 0 && n != -ENOENT ? 400 : shape(p);
	if (status != 0)
		refuse(p, status,
		       status == 415 ? "multipart/form-data or application/octet-stream is wanted, "
				       "as it is or as gzip"
				     : "path: not understood");
	else if (p->form == NULL)
		(void)open_file(p, p->path);
}

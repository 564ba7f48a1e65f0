#include "base/num.h"
#include "keep/files.h"
#include "keep/fsop.h"
#include "parse/uri.h"
#include "wire/frame.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * GET /files: what the file is first (STAT), then its bytes (READ), as fast as the client takes
 * them. The head goes out with the first byte, when it is known that the user may read. A file that
 * shrinks meanwhile is a broken connection, since its length was promised.
 */

struct get {
	struct talk *t;
	struct stream *s;
	unsigned status;
	uint64_t first, left, size;
	time_t mtime;
	char path[4096];
};

static void get_free(struct talk *t)
{
	struct get *g = t->arg;

	t->ops = NULL;
	t->arg = NULL;
	if (g->s != NULL) {
		stream_reset(g->s);
		stream_abandon(g->s);
	}
	free(g);
}

static void send_head(struct get *g)
{
	static char name[FILES_DISPOSITION];
	char date[FILES_DATE], length[24], range[80];
	const struct call_field f[] = {
	    {"content-type", "application/octet-stream"},
	    {"content-length", length},
	    {"content-disposition", name},
	    {"accept-ranges", "bytes"},
	    {"last-modified", date},
	    {"x-content-type-options", "nosniff"},
	    {"content-range", range},
	};

	files_disposition(g->path, name, sizeof(name));
	files_date(g->mtime, date);
	(void)snprintf(length, sizeof(length), "%llu", (unsigned long long)g->left);
	(void)snprintf(range, sizeof(range), "bytes %llu-%llu/%llu", (unsigned long long)g->first,
		       (unsigned long long)(g->first + g->left - 1), (unsigned long long)g->size);
	talk_reply(g->t, g->status, f, g->status == 206 ? 7 : 6);
}

static ssize_t on_data(void *arg, struct stream *s, uint8_t chan, const void *p, size_t n)
{
	struct get *g = arg;
	size_t room = talk_room(g->t), part = MIN(MIN(n, room), g->left);

	(void)s;
	if (chan != CHAN_OUT)
		return (ssize_t)n;
	if (!g->t->head_sent)
		send_head(g);
	if (g->left == 0)
		return (ssize_t)n; /* more than was promised: it grew */
	talk_send(g->t, p, part);
	g->left -= part;
	return (ssize_t)part;
}

static void on_result(void *arg, struct stream *s, const struct stream_result *r)
{
	struct get *g = arg;
	struct talk *t = g->t;
	char path[4096];

	(void)s;
	g->s = NULL;
	if (keep_lost(t->k))
		return;
	memcpy(path, g->path, sizeof(path));
	if (r->how == HOW_DONE && !t->head_sent)
		send_head(g);
	if (r->how == HOW_DONE && g->left == 0) {
		get_free(t);
		talk_end(t);
	} else if (t->head_sent) {
		get_free(t);
		talk_cut(t);
	} else {
		get_free(t);
		files_fail(t, r->how == HOW_ERROR ? r->err : EIO, path, r->text);
	}
}

static const struct stream_ops stream_ops = {.data = on_data, .result = on_result};

static void on_writable(struct talk *t)
{
	const struct get *g = t->arg;

	if (g->s != NULL)
		stream_resume(g->s, CHAN_OUT);
}

static const struct talk_ops talk_ops = {.writable = on_writable, .closed = get_free};

static void read_it(struct get *g)
{
	struct talk *t = g->t;
	struct err e = ERR_INIT;
	struct buf req;
	struct msg_writer w = query_begin(&req, REQ_READ, 0, t->user->spec);
	int r;

	msg_str(&w, F_PATH, g->path);
	msg_u64(&w, F_OFFSET, g->first);
	msg_u64(&w, F_LENGTH, g->left);
	r = w.err < 0 ? w.err
		      : session_open(t->k->session, &req, NULL, 0, &stream_ops, g, &g->s, &e);
	buf_done(&req);
	if (r < 0) {
		get_free(t);
		fail(t, FAIL_RESOURCE_EXHAUSTED, "%s", e.msg);
	}
}

/* ---- conditions and ranges (RFC 9110 13, 14) ---- */

static bool since(const struct talk *t, const char *field, time_t mtime, bool *ret)
{
	const char *s = call_find(&t->head, field);
	time_t at;

	if (s == NULL || !files_date_read(s, &at))
		return false;
	*ret = mtime > at;
	return true;
}

/* 0 = go on, else the status that answers it. */
static unsigned conditions(const struct talk *t, time_t mtime)
{
	bool changed;

	if (since(t, "if-unmodified-since", mtime, &changed) && changed)
		return 412;
	if (since(t, "if-modified-since", mtime, &changed) && !changed)
		return 304;
	return 0;
}

static bool identity_refused(const struct talk *t)
{
	const char *s = call_find(&t->head, "accept-encoding");

	return s != NULL &&
	       (strstr(s, "identity;q=0") != NULL || strstr(s, "identity; q=0") != NULL) &&
	       strstr(s, "identity;q=0.") == NULL && strstr(s, "identity; q=0.") == NULL;
}

static const char *range_field(const struct talk *t, time_t mtime)
{
	const char *cond = call_find(&t->head, "if-range");
	time_t at;

	if (cond != NULL && (!files_date_read(cond, &at) || at != mtime))
		return NULL;
	return call_find(&t->head, "range");
}

static void refuse_range(struct talk *t, uint64_t size)
{
	char range[48];
	const struct call_field f[] = {{"content-range", range}, {"content-length", "0"}};

	(void)snprintf(range, sizeof(range), "bytes */%llu", (unsigned long long)size);
	talk_reply(t, 416, f, 2);
	talk_end(t);
}

static void begin(struct talk *t, const char *path, const struct finfo *f)
{
	time_t mtime = (time_t)(f->mtime_ns / 1000000000);
	unsigned status = conditions(t, mtime);
	uint64_t first = 0, n = f->size;
	enum files_range range = files_range(range_field(t, mtime), f->size, &first, &n);
	struct get *g;

	if (status != 0) {
		talk_status(t, status);
		return;
	}
	if (range == RANGE_UNMET) {
		refuse_range(t, f->size);
		return;
	}
	g = calloc(1, sizeof(*g));
	if (g == NULL) {
		talk_cut(t);
		return;
	}
	*g = (struct get){.t = t, .first = first, .left = n, .size = f->size, .mtime = mtime};
	g->status = range == RANGE_OK ? 206 : 200;
	memcpy(g->path, path, strlen(path) + 1);
	t->ops = &talk_ops;
	t->arg = g;
	read_it(g);
}

static void on_stat(struct query *q, const struct stream_result *r)
{
	struct fsop *o = (struct fsop *)q;
	struct talk *t = o->t;
	struct finfo f = {.type = 0};
	bool ok = r->how == HOW_DONE && fsop_record(o, &f) == 0;
	int err = r->how == HOW_ERROR ? r->err : ok ? 0 : EIO;
	char path[4096];

	memcpy(path, o->path, sizeof(path));
	fsop_done(o);
	if (!ok)
		files_fail(t, err == ENOTDIR ? ENOENT : err, path, r->text);
	else if (f.type == DT_DIR)
		files_fail(t, EISDIR, path, "");
	else if (f.type != DT_REG)
		fail_status(t, 400, "path '%s' is not a regular file", path);
	else
		begin(t, path, &f);
}

void files_get(struct talk *t, json_t *req)
{
	char path[4096];
	int n = uri_get(uri_query(t->head.target), "path", path, sizeof(path));
	struct fsop *o;

	(void)req;
	if (identity_refused(t)) {
		fail_status(t, 406, "files are sent as they are");
		return;
	}
	o = fsop_new(t, n < 0 ? NULL : path);
	if (o != NULL)
		fsop_ask(o, REQ_STAT, 0, o->path, NULL, on_stat);
}

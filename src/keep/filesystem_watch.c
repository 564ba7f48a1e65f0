#include "base/num.h"
#include "keep/fsop.h"
#include "keep/rpc.h"
#include "keep/text.h"
#include "keep/watch.h"
#include "keep/watchers.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * filesystem.Filesystem WatchDir, and the look at the folder that it shares with CreateWatcher.
 */

/* ---- the folder, first ---- */

/* fsop's path2, which is not needed as a path, holds what is asked for: 'r' and 'e'. */
static bool flag(const json_t *req, const char *camel, const char *snake)
{
	return json_is_true(rpc_get(req, camel, snake));
}

static void on_looked(struct query *q, const struct stream_result *r)
{
	struct fsop *o = (struct fsop *)q;
	struct talk *t = o->t;
	struct watch_want want = {
	    .user = t->user->spec, .recursive = o->path2[0] == 'r', .entries = o->path2[1] == 'e'};
	bool poll = o->flag;
	struct finfo f;
	char path[4096];

	if (!fsop_take(o, r, &f, path))
		return;
	want.path = path;
	if (f.type != DT_DIR)
		fail(t, FAIL_INVALID_ARGUMENT, "path %s is not a directory", path);
	else if (poll)
		watchers_open(t, &want);
	else
		watch_stream(t, &want);
}

static void look(struct talk *t, const json_t *req, bool poll)
{
	struct fsop *o = fsop_new(t, rpc_text(rpc_get(req, "path", NULL)));

	if (o == NULL)
		return;
	o->flag = poll;
	o->path2[0] = flag(req, "recursive", NULL) ? 'r' : '-';
	o->path2[1] = flag(req, "includeEntry", "include_entry") ? 'e' : '-';
	fsop_ask(o, REQ_STAT, 0, o->path, NULL, on_looked);
}

void filesystem_watch_dir(struct talk *t, json_t *req) { look(t, req, false); }
void filesystem_create_watcher(struct talk *t, json_t *req) { look(t, req, true); }

/* ---- WatchDir ---- */

struct viewing {
	struct talk *t;
	struct watch *w;
	struct timer keepalive, deadline;
	uint64_t interval_ms, said_ms;
};

static void viewing_free(struct talk *t)
{
	struct viewing *v = t->arg;

	t->ops = NULL;
	t->arg = NULL;
	timer_clear(&t->k->timers, &v->keepalive);
	timer_clear(&t->k->timers, &v->deadline);
	watch_drop(v->w);
	free(v);
}

static void said(struct viewing *v) { v->said_ms = v->t->k->loop.now_ms; }

static bool on_room(void *arg) { return talk_room(((struct viewing *)arg)->t) > 0; }

static void on_started(void *arg)
{
	struct viewing *v = arg;

	stream_raw(v->t, "{\"start\":{}}", 12);
	said(v);
	timer_set(&v->t->k->timers, &v->keepalive, v->said_ms + v->interval_ms);
}

static void on_event(void *arg, const char *text, size_t n)
{
	struct viewing *v = arg;
	struct buf b;

	buf_init(&b, 2 * CALL_PIECE_MAX);
	if (text_put(&b, "{\"filesystem\":") < 0 || buf_put(&b, text, n) < 0 ||
	    text_put(&b, "}") < 0)
		talk_cut(v->t);
	else
		stream_raw(v->t, buf_head(&b), b.len);
	buf_done(&b);
	said(v);
}

static void on_ended(void *arg, int err, const char *text)
{
	struct viewing *v = arg;
	struct talk *t = v->t;

	v->w = NULL;
	viewing_free(t);
	if (err == 0)
		stream_close(t);
	else if (err == EOVERFLOW)
		fail(t, FAIL_RESOURCE_EXHAUSTED, "%s", text);
	else
		fs_fail(t, err, "", text);
}

static const struct watch_ops watch_ops = {
    .room = on_room, .event = on_event, .started = on_started, .ended = on_ended};

static void on_writable(struct talk *t)
{
	struct viewing *v = t->arg;

	watch_resume(v->w);
}

static const struct talk_ops talk_ops = {.writable = on_writable, .closed = viewing_free};

static void on_keepalive(struct timer *tm)
{
	struct viewing *v = (struct viewing *)((char *)tm - offsetof(struct viewing, keepalive));
	uint64_t now = v->t->k->loop.now_ms;

	if (now - v->said_ms >= v->interval_ms && talk_room(v->t) > 0) {
		stream_raw(v->t, "{\"keepalive\":{}}", 16);
		said(v);
	}
	timer_set(&v->t->k->timers, tm, MAX(v->said_ms + v->interval_ms, now + 1000));
}

static void on_deadline(struct timer *tm)
{
	struct viewing *v = (struct viewing *)((char *)tm - offsetof(struct viewing, deadline));
	struct talk *t = v->t;

	viewing_free(t);
	fail(t, FAIL_DEADLINE_EXCEEDED, "the operation timed out");
}

void watch_stream(struct talk *t, const struct watch_want *want)
{
	struct viewing *v = calloc(1, sizeof(*v));
	uint64_t ms = stream_timeout_ms(t);
	struct err e = ERR_INIT;

	if (v == NULL) {
		talk_cut(t);
		return;
	}
	v->t = t;
	v->interval_ms = stream_keepalive_ms(t);
	v->keepalive.fire = on_keepalive;
	v->deadline.fire = on_deadline;
	t->ops = &talk_ops;
	t->arg = v;
	if (watch_open(t->k, want, &watch_ops, v, &v->w, &e) < 0) {
		viewing_free(t);
		fail(t, FAIL_RESOURCE_EXHAUSTED, "%s", e.msg);
		return;
	}
	stream_begin(t);
	if (ms > 0)
		timer_set(&t->k->timers, &v->deadline, t->k->loop.now_ms + ms);
}

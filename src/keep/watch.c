#include "keep/watch.h"

#include "base/num.h"
#include "keep/finfo.h"
#include "keep/priv.h"
#include "keep/text.h"
#include "wire/frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Fed by the agent, which is hostile: records are read by wire/request.h, and one that is none ends
 * the watch. A move within the folder is told as E2B's server does: a rename of the old name, a
 * creation of the new one. */

struct watch {
	struct keep *k;
	struct stream *s;
	const struct watch_ops *ops;
	void *arg;
	bool entries;
	bool second;   /* of a move: the rename was told, the creation not yet */
	int err;       /* what ended it; 0 = nothing yet */
	struct buf in; /* an unfinished record, and whole ones not told */
	size_t root_n;
	char path[4096 + 4096];
};

static const char *const words[] = {
    [WATCH_CREATE] = "EVENT_TYPE_CREATE", [WATCH_WRITE] = "EVENT_TYPE_WRITE",
    [WATCH_REMOVE] = "EVENT_TYPE_REMOVE", [WATCH_RENAME] = "EVENT_TYPE_RENAME",
    [WATCH_CHMOD] = "EVENT_TYPE_CHMOD",
};

static int put_entry(struct watch *w, struct buf *b, const struct finfo *f, struct finfo_text name)
{
	int r = text_put(b, ",\"entry\":");

	memcpy(w->path + w->root_n, name.p, name.n);
	return r == 0 ? finfo_put(b, f, w->path, w->root_n + name.n) : r;
}

static int tell(struct watch *w, const struct finfo *f, enum watch_event kind,
		struct finfo_text name)
{
	struct buf b;
	int r;

	buf_init(&b, CALL_PIECE_MAX);
	r = text_put(&b, "{\"name\":");
	if (r == 0)
		r = text_put_json(&b, name.p, name.n);
	if (r == 0)
		r = text_putf(&b, ",\"type\":\"%s\"", words[kind]);
	if (r == 0 && w->entries && f->has_type && kind != WATCH_RENAME && kind != WATCH_REMOVE)
		r = put_entry(w, &b, f, name);
	if (r == 0)
		r = text_put(&b, "}");
	if (r == 0)
		w->ops->event(w->arg, (const char *)buf_head(&b), b.len);
	buf_done(&b);
	return r;
}

/* 1: told, 0: no room now, -errno. */
static int take(struct watch *w, struct msg_reader *m)
{
	struct finfo f;
	int r = finfo_read(m, &f);

	if (r < 0 || f.name.p == NULL)
		return -EPROTO;
	if (f.event == WATCH_OVERFLOW)
		return -EOVERFLOW;
	if (f.event == 0 || f.event >= ARRAY_LEN(words))
		return -EPROTO;
	if (!w->ops->room(w->arg))
		return 0;
	if (!w->second) {
		r = tell(w, &f, (enum watch_event)f.event, f.name);
		if (r < 0 || f.event != WATCH_RENAME || f.target.p == NULL)
			return r < 0 ? r : 1;
		w->second = true;
		if (!w->ops->room(w->arg))
			return 0;
	}
	w->second = false;
	r = tell(w, &f, WATCH_CREATE, f.target);
	return r < 0 ? r : 1;
}

/* False: there is no room for the rest now. */
static bool take_all(struct watch *w)
{
	while (w->in.len > 0 && w->err == 0) {
		struct msg_reader m;
		int used = record_next(buf_head(&w->in), w->in.len, &m), r;

		if (used == 0)
			return true;
		r = used < 0 ? used : take(w, &m);
		if (r == 0)
			return false;
		if (r < 0)
			w->err = -r;
		else
			buf_consume(&w->in, (size_t)used);
	}
	return true;
}

static ssize_t on_data(void *arg, struct stream *s, uint8_t chan, const void *p, size_t n)
{
	struct watch *w = arg;
	size_t part;

	if (chan != CHAN_OUT || w->err != 0)
		return (ssize_t)n;
	if (!take_all(w))
		return 0;
	part = MIN(n, buf_room(&w->in));
	if (buf_put(&w->in, p, part) < 0)
		w->err = ENOMEM;
	(void)take_all(w);
	if (w->err != 0)
		stream_reset(s);
	return w->err != 0 ? (ssize_t)n : (ssize_t)part;
}

static void on_started(void *arg, struct stream *s, uint32_t pid)
{
	const struct watch *w = arg;

	(void)s;
	(void)pid;
	w->ops->started(w->arg);
}

static void on_result(void *arg, struct stream *s, const struct stream_result *r)
{
	struct watch *w = arg;
	const struct watch_ops *ops = w->ops;
	void *whose = w->arg;
	int err = w->err != 0 ? w->err : r->how == HOW_ERROR ? r->err : 0;

	(void)s;
	w->s = NULL;
	if (keep_lost(w->k))
		return; /* its owner ends with the sandbox, and frees it */
	watch_drop(w);
	ops->ended(whose, err,
		   err == EOVERFLOW ? "events were lost: list the folder and watch it again"
				    : r->text);
}

static const struct stream_ops stream_ops = {
    .data = on_data, .started = on_started, .result = on_result};

int watch_open(struct keep *k, const struct watch_want *want, const struct watch_ops *ops,
	       void *arg, struct watch **ret, struct err *e)
{
	struct watch *w = calloc(1, sizeof(*w));
	struct msg_writer m;
	struct buf req;
	int r;

	if (w == NULL)
		return err_no_memory(e);
	w->k = k;
	w->ops = ops;
	w->arg = arg;
	w->entries = want->entries;
	buf_init(&w->in, 2 * MSG_RECORD_MAX);
	w->root_n = strlen(want->path);
	memcpy(w->path, want->path, w->root_n);
	if (w->root_n > 1)
		w->path[w->root_n++] = '/';
	m = query_begin(&req, REQ_WATCH,
			(want->recursive ? REQ_RECURSIVE : 0) | (want->entries ? REQ_DETAIL : 0),
			want->user);
	msg_str(&m, F_PATH, want->path);
	msg_str(&m, F_XATTRS, FINFO_METADATA);
	r = m.err < 0 ? err_no_memory(e)
		      : session_open(k->session, &req, NULL, 0, &stream_ops, w, &w->s, e);
	buf_done(&req);
	if (r < 0)
		watch_drop(w);
	else
		*ret = w;
	return r;
}

void watch_resume(struct watch *w)
{
	if (w->s == NULL)
		return;
	(void)take_all(w);
	if (w->err != 0)
		stream_reset(w->s);
	stream_resume(w->s, CHAN_OUT);
}

void watch_drop(struct watch *w)
{
	if (w == NULL)
		return;
	if (w->s != NULL) {
		stream_reset(w->s);
		stream_abandon(w->s);
	}
	buf_done(&w->in);
	free(w);
}

#include "keep/fsop.h"

#include "keep/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void fs_fail(struct talk *t, int err, const char *path, const char *text)
{
	switch (err) {
	case ENOENT:
		fail(t, FAIL_NOT_FOUND, "path '%s' does not exist", path);
		break;
	case EEXIST:
		fail(t, FAIL_ALREADY_EXISTS, "path '%s' already exists", path);
		break;
	case ELOOP:
		fail(t, FAIL_FAILED_PRECONDITION, "path '%s' is a loop of links", path);
		break;
	case ENOTDIR:
	case EISDIR:
	case EINVAL:
	case ENAMETOOLONG:
	case ENOTEMPTY:
		fail(t, FAIL_INVALID_ARGUMENT, "%s", text);
		break;
	case EACCES:
	case EPERM:
	case EROFS:
		fail(t, FAIL_PERMISSION_DENIED, "%s", text);
		break;
	case ENOSPC:
	case EDQUOT:
	case EMFILE:
	case EAGAIN:
		fail(t, FAIL_RESOURCE_EXHAUSTED, "%s", text);
		break;
	default:
		fail(t, FAIL_INTERNAL, "%s", text);
		break;
	}
}

static void on_closed(struct talk *t) { fsop_done(t->arg); }

static const struct talk_ops ops = {.closed = on_closed};

struct fsop *fsop_new(struct talk *t, const char *path)
{
	struct fsop *o;

	if (path == NULL) {
		fail(t, FAIL_INVALID_ARGUMENT, "a path is wanted");
		return NULL;
	}
	o = calloc(1, sizeof(*o));
	if (o == NULL) {
		talk_cut(t);
		return NULL;
	}
	if (users_path(t->user, path, o->path) < 0) {
		free(o);
		fail(t, FAIL_INVALID_ARGUMENT, "a path has at most 4095 bytes");
		return NULL;
	}
	o->t = t;
	t->ops = &ops;
	t->arg = o;
	return o;
}

void fsop_done(struct fsop *o)
{
	o->t->ops = NULL;
	o->t->arg = NULL;
	query_drop(&o->q);
	free(o);
}

void fsop_ask(struct fsop *o, enum req_kind kind, uint64_t flags, const char *path,
	      const char *path2, void (*done)(struct query *q, const struct stream_result *r))
{
	struct talk *t = o->t;
	struct err e = ERR_INIT;
	struct buf req;
	struct msg_writer w =
	    query_begin(&req, kind, flags | (kind == REQ_STAT ? REQ_DETAIL : 0), t->user->spec);
	int r;

	msg_str(&w, F_PATH, path);
	if (path2 != NULL)
		msg_str(&w, F_PATH2, path2);
	if (kind == REQ_STAT)
		msg_str(&w, F_XATTRS, FINFO_METADATA);
	r = w.err < 0 ? w.err : query_open(t->k, &o->q, &req, MSG_RECORD_MAX + 4, done, &e);
	buf_done(&req);
	if (r < 0) {
		fsop_done(o);
		fail(t, FAIL_RESOURCE_EXHAUSTED, "%s", e.msg);
	}
}

void fsop_fail(struct fsop *o, const struct stream_result *r)
{
	struct talk *t = o->t;
	char path[4096];

	memcpy(path, o->path, sizeof(path));
	fsop_done(o);
	fs_fail(t, r->how == HOW_ERROR ? r->err : EIO, path, r->text);
}

int fsop_record(const struct fsop *o, struct finfo *ret)
{
	struct msg_reader m;
	int n = record_next(buf_head(&o->q.out), o->q.out.len, &m);

	return n <= 0 ? -EPROTO : finfo_read(&m, ret);
}

bool fsop_take(struct fsop *o, const struct stream_result *r, struct finfo *ret, char path[4096])
{
	if (r->how != HOW_DONE || fsop_record(o, ret) < 0) {
		fsop_fail(o, r);
		return false;
	}
	memcpy(path, o->path, sizeof(o->path));
	fsop_done(o);
	return true;
}

static void on_entry(struct query *q, const struct stream_result *r)
{
	struct fsop *o = (struct fsop *)q;
	struct talk *t = o->t;
	struct finfo f;
	struct buf b;
	int err;

	if (r->how != HOW_DONE) {
		fsop_fail(o, r);
		return;
	}
	buf_init(&b, BODY_MAX);
	err = fsop_record(o, &f);
	if (err == 0)
		err = text_put(&b, "{\"entry\":");
	if (err == 0)
		err = finfo_put(&b, &f, o->path, strlen(o->path));
	if (err == 0)
		err = text_put(&b, "}");
	fsop_done(o);
	if (err < 0)
		talk_cut(t);
	else
		talk_answer(t, 200, "application/json", &b);
	buf_done(&b);
}

void fsop_answer_entry(struct fsop *o, const char *path)
{
	if (path != o->path)
		memcpy(o->path, path, strlen(path) + 1);
	fsop_ask(o, REQ_STAT, REQ_NOFOLLOW, o->path, NULL, on_entry);
}

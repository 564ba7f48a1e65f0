#include "keep/fsop.h"
#include "keep/rpc.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

/* filesystem.Filesystem: Stat, MakeDir, Move, Remove. Requests are a client's; the agent acts as
 * its user and decides. */

static const char *path_of(const json_t *req) { return rpc_text(rpc_get(req, "path", NULL)); }

void filesystem_stat(struct talk *t, json_t *req)
{
	struct fsop *o = fsop_new(t, path_of(req));

	if (o != NULL)
		fsop_answer_entry(o, o->path);
}

/* ---- MakeDir: there already as a folder, or as something else? ---- */

static void on_there(struct query *q, const struct stream_result *r)
{
	struct fsop *o = (struct fsop *)q;
	struct talk *t = o->t;
	struct finfo f;
	char path[4096];

	if (!fsop_take(o, r, &f, path))
		return;
	if (f.type == DT_DIR)
		fail(t, FAIL_ALREADY_EXISTS, "directory already exists: %s", path);
	else
		fail(t, FAIL_INVALID_ARGUMENT, "path already exists but it is not a directory: %s",
		     path);
}

static void on_made(struct query *q, const struct stream_result *r)
{
	struct fsop *o = (struct fsop *)q;

	if (r->how == HOW_DONE)
		fsop_answer_entry(o, o->path);
	else if (r->err == EEXIST)
		fsop_ask(o, REQ_STAT, 0, o->path, NULL, on_there);
	else if (r->err == ENOENT && !o->flag) {
		o->flag = true;
		fsop_ask(o, REQ_MKDIR, REQ_PARENTS, o->path, NULL, on_made);
	} else
		fsop_fail(o, r);
}

void filesystem_make_dir(struct talk *t, json_t *req)
{
	struct fsop *o = fsop_new(t, path_of(req));

	if (o != NULL)
		fsop_ask(o, REQ_MKDIR, 0, o->path, NULL, on_made);
}

/* ---- Move ---- */

static void on_moved(struct query *q, const struct stream_result *r)
{
	struct fsop *o = (struct fsop *)q;

	if (r->how == HOW_DONE)
		fsop_answer_entry(o, o->path2);
	else
		fsop_fail(o, r);
}

void filesystem_move(struct talk *t, json_t *req)
{
	const char *to = rpc_text(rpc_get(req, "destination", NULL));
	struct fsop *o = fsop_new(t, rpc_text(rpc_get(req, "source", NULL)));

	if (o == NULL)
		return;
	if (to == NULL || users_path(t->user, to, o->path2) < 0) {
		fsop_done(o);
		fail(t, FAIL_INVALID_ARGUMENT,
		     "destination: a path of at most 4095 bytes is wanted");
		return;
	}
	fsop_ask(o, REQ_MOVE, REQ_PARENTS, o->path, o->path2, on_moved);
}

/* ---- Remove ---- */

static void on_removed(struct query *q, const struct stream_result *r)
{
	struct fsop *o = (struct fsop *)q;
	struct talk *t = o->t;

	if (r->how != HOW_DONE && r->err != ENOENT) {
		fsop_fail(o, r);
		return;
	}
	fsop_done(o);
	rpc_empty(t);
}

void filesystem_remove(struct talk *t, json_t *req)
{
	struct fsop *o = fsop_new(t, path_of(req));

	if (o != NULL)
		fsop_ask(o, REQ_REMOVE, REQ_RECURSIVE, o->path, NULL, on_removed);
}

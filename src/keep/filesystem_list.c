#include "base/num.h"
#include "keep/finfo.h"
#include "keep/fsop.h"
#include "keep/priv.h"
#include "keep/query.h"
#include "keep/rpc.h"
#include "keep/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * filesystem.Filesystem ListDir. The agent sends records in no order; they are kept as they came,
 * LIST_MAX bytes at most, sorted, and written as JSON while the client takes it.
 */

enum { LIST_MAX = 32 * 1024 * 1024, DEPTH_MAX = 64, ROUND = 32 * 1024 };

struct item {
	uint32_t off; /* of its record in q.out */
	struct finfo_text name;
};

struct listing {
	struct query q;
	struct talk *t;
	struct item *items; /* owned */
	size_t n, next;
	size_t root_n;
	char path[4096 + 4096];
};

static void listing_free(struct talk *t)
{
	struct listing *l = t->arg;

	t->ops = NULL;
	t->arg = NULL;
	query_drop(&l->q);
	free(l->items);
	free(l);
}

/* A folder before what is in it, and that before its next sibling: '/' comes first. */
static int by_path(const void *a, const void *b)
{
	const struct finfo_text *x = &((const struct item *)a)->name,
				*y = &((const struct item *)b)->name;

	for (size_t i = 0; i < x->n && i < y->n; i++) {
		int c = x->p[i] == '/' ? 0 : (uint8_t)x->p[i],
		    d = y->p[i] == '/' ? 0 : (uint8_t)y->p[i];

		if (c != d)
			return c - d;
	}
	return x->n < y->n ? -1 : x->n > y->n;
}

static int index_records(struct listing *l)
{
	const uint8_t *base = buf_head(&l->q.out);
	size_t off = 0, cap = 0;

	while (off < l->q.out.len) {
		struct msg_reader m;
		struct finfo f;
		int used = record_next(base + off, l->q.out.len - off, &m);

		if (used <= 0 || finfo_read(&m, &f) < 0 || f.name.p == NULL || f.name.n == 0)
			return -EPROTO;
		if (l->n == cap) {
			struct item *v =
			    reallocarray(l->items, cap = cap == 0 ? 64 : 2 * cap, sizeof(*v));

			if (v == NULL)
				return -ENOMEM;
			l->items = v;
		}
		l->items[l->n++] = (struct item){.off = (uint32_t)off, .name = f.name};
		off += (size_t)used;
	}
	if (l->n > 0)
		qsort(l->items, l->n, sizeof(*l->items), by_path);
	return 0;
}

static int put_item(struct listing *l, struct buf *b, const struct item *it)
{
	const uint8_t *p = buf_head(&l->q.out) + it->off;
	struct msg_reader m;
	struct finfo f;
	int r = record_next(p, l->q.out.len - it->off, &m) > 0 ? finfo_read(&m, &f) : -EPROTO;

	if (r < 0)
		return r;
	memcpy(l->path + l->root_n, f.name.p, f.name.n);
	r = l->next > 0 ? text_put(b, ",") : 0;
	return r == 0 ? finfo_put(b, &f, l->path, l->root_n + f.name.n) : r;
}

static void on_writable(struct talk *t)
{
	struct listing *l = t->arg;
	int r = 0;

	while (r == 0 && talk_room(t) > 0) {
		struct buf b;

		buf_init(&b, 2 * CALL_PIECE_MAX);
		for (; r == 0 && l->next < l->n && b.len < ROUND; l->next++)
			r = put_item(l, &b, &l->items[l->next]);
		if (r == 0 && l->next == l->n)
			r = text_put(&b, "]}");
		if (r == 0)
			talk_send(t, buf_head(&b), b.len);
		buf_done(&b);
		if (r == 0 && l->next == l->n) {
			listing_free(t);
			talk_end(t);
			return;
		}
	}
	if (r < 0) {
		listing_free(t);
		talk_cut(t);
	}
}

static void on_list(struct query *q, const struct stream_result *r)
{
	static const struct call_field f[] = {{"content-type", "application/json"}};
	struct listing *l = (struct listing *)q;
	struct talk *t = l->t;
	char path[4096];

	memcpy(path, l->path, l->root_n);
	path[l->root_n > 1 ? l->root_n - 1 : l->root_n] = '\0';
	if (q->too_long) {
		listing_free(t);
		fail(t, FAIL_RESOURCE_EXHAUSTED, "the list has more than %d MiB", LIST_MAX >> 20);
	} else if (r->how != HOW_DONE) {
		listing_free(t);
		fs_fail(t, r->how == HOW_ERROR ? r->err : EIO, path, r->text);
	} else if (index_records(l) < 0) {
		listing_free(t);
		talk_cut(t);
	} else {
		talk_reply(t, 200, f, 1);
		talk_send(t, "{\"entries\":[", 12);
		on_writable(t);
	}
}

static const struct talk_ops ops = {.writable = on_writable, .closed = listing_free};

static int ask(struct listing *l, const char *path, uint32_t depth, struct err *e)
{
	struct talk *t = l->t;
	struct buf req;
	struct msg_writer w = query_begin(&req, REQ_LIST, REQ_DETAIL, t->user->spec);
	int r;

	msg_str(&w, F_PATH, path);
	msg_u64(&w, F_DEPTH, depth == 0 ? 1 : MIN(depth, (uint32_t)DEPTH_MAX));
	msg_str(&w, F_XATTRS, FINFO_METADATA);
	r = w.err < 0 ? w.err : query_open(t->k, &l->q, &req, LIST_MAX, on_list, e);
	buf_done(&req);
	return r;
}

void filesystem_list_dir(struct talk *t, json_t *req)
{
	const char *given = rpc_text(rpc_get(req, "path", NULL));
	json_t *d = rpc_get(req, "depth", NULL);
	struct err e = ERR_INIT;
	struct listing *l;
	uint32_t depth = 1;
	char path[4096];

	if (given == NULL || users_path(t->user, given, path) < 0 ||
	    (d != NULL && !rpc_u32(d, &depth))) {
		fail(t, FAIL_INVALID_ARGUMENT,
		     "a path of at most 4095 bytes and a depth are wanted");
		return;
	}
	l = calloc(1, sizeof(*l));
	if (l == NULL) {
		talk_cut(t);
		return;
	}
	l->t = t;
	t->ops = &ops;
	t->arg = l;
	l->root_n = strlen(path);
	memcpy(l->path, path, l->root_n);
	if (l->root_n > 1)
		l->path[l->root_n++] = '/';
	if (ask(l, path, depth, &e) < 0) {
		listing_free(t);
		fail(t, FAIL_RESOURCE_EXHAUSTED, "%s", e.msg);
	}
}

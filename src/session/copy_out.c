#include "session/copy_out.h"

#include "base/num.h"
#include "base/quote.h"
#include "session/copy_tree.h"
#include "wire/frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Theory of operation. Fed by a sandbox, so by an attacker. wire/pack.c has checked the form of each
 * entry (relative, no "..", sizes never passed); here the amounts are checked before anything is
 * made for an entry, and the first broken rule ends the copy. copy_tree.c does the creating.
 *
 * The root comes first and once; every other entry needs it to be a folder. Whether a parent folder
 * was packed is left to the file system: if it does not exist, creating in it fails.
 */

struct copy_out {
	struct copy_out_opts o;
	struct pack_decoder d;
	struct copy_tree tree;
	bool has_root, root_is_dir;
	uint64_t bytes, apparent, entries, folders;
	struct stream *stream;
	bool opened, ended;
	int status; /* 0 or the first -errno */
	struct err e;
};

int copy_out_new(const struct copy_out_opts *opts, struct copy_out **ret, struct err *e)
{
	struct copy_out *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return err_no_memory(e);
	c->o = *opts;
	c->tree = COPY_TREE_INIT;
	pack_decoder_init(&c->d);
	*ret = c;
	return 0;
}

void copy_out_free(struct copy_out *c)
{
	if (c == NULL)
		return;
	if (c->stream != NULL) {
		stream_reset(c->stream);
		stream_abandon(c->stream);
	}
	copy_tree_done(&c->tree);
	pack_decoder_done(&c->d);
	free(c);
}

uint64_t copy_out_bytes(const struct copy_out *c) { return c->bytes; }
uint64_t copy_out_entries(const struct copy_out *c) { return c->entries; }
const struct copy_warn *copy_out_warnings(const struct copy_out *c) { return &c->o.warn; }

static int broken(struct copy_out *c, const char *why)
{
	return err_set(&c->e, ERR_LOST, EPROTO, "the sandbox sent a broken file stream: %s", why);
}

static int too_large(struct copy_out *c, const char *what, uint64_t max)
{
	return err_set(&c->e, ERR_LIMITED, EFBIG, "more than %llu %s to copy out",
		       (unsigned long long)max, what);
}

/* The first entry decides what the destination is. */
static int take_root(struct copy_out *c, const struct pack_entry *p)
{
	char name[256];
	int r;

	if (c->has_root)
		return broken(c, "two roots");
	c->has_root = true;
	c->root_is_dir = p->type == PACK_DIR;
	if (p->type == PACK_LINK)
		return err_set(&c->e, ERR_INVALID, ELOOP,
			       "it is a symbolic link in the sandbox: name what it points to");
	if (c->o.dst == NULL)
		return 0;
	if (c->root_is_dir)
		return copy_tree_root(&c->tree, c->o.dst, p->mode, &c->e);
	r = copy_tree_file_root(&c->tree, c->o.dst, c->o.name, name, &c->e);
	return r < 0 ? r : copy_tree_begin(&c->tree, name, p, &c->e);
}

/* Is the entry, or a folder it is in, excluded? */
static bool left_out(const struct copy_out *c, const struct pack_entry *p)
{
	char path[PACK_PATH_MAX + 1];
	const char *name = path;

	if (c->o.rules.exclude_n == 0)
		return false;
	for (size_t i = 0;; i++) {
		bool end = p->path[i] == '\0';

		path[i] = '\0';
		if ((end || p->path[i] == '/') &&
		    walk_excluded(&c->o.rules, path, name, !end || p->type == PACK_DIR))
			return true;
		if (end)
			return false;
		path[i] = p->path[i];
		if (path[i] == '/')
			name = path + i + 1;
	}
}

/* Take n of what is left for all copies: false when it is not there. */
static bool take_room(uint64_t *left, uint64_t n)
{
	if (n > *left)
		return false;
	*left -= n;
	return true;
}

static int take_entry(struct copy_out *c, const struct pack_entry *p)
{
	struct copy_room *room = c->o.room;

	if (++c->entries > c->o.max_entries)
		return too_large(c, "entries", c->o.max_entries);
	if (p->size > c->o.max_apparent - c->apparent)
		return too_large(c, "bytes of files", c->o.max_apparent);
	if (room != NULL && !take_room(&room->entries, 1))
		return too_large(c, "entries (all copies together)", c->o.max_entries);
	if (p->type == PACK_DIR && ++c->folders > c->o.max_folders)
		return too_large(c, "folders", c->o.max_folders);
	if (room != NULL && p->type == PACK_DIR && !take_room(&room->folders, 1))
		return too_large(c, "folders (all copies together)", c->o.max_folders);
	if (room != NULL && !take_room(&room->apparent, p->size))
		return too_large(c, "bytes of files (all copies together)", c->o.max_apparent);
	c->apparent += p->size;
	if (p->path[0] == '\0')
		return take_root(c, p);
	if (!c->has_root || !c->root_is_dir)
		return broken(c, "an entry without a folder around it");
	if (left_out(c, p))
		return 0;
	if (p->type == PACK_LINK && !pack_link_ok(p->path, p->target)) {
		copy_warn(&c->o.warn, p->path, "left out: the link leads out of the folder");
		return 0;
	}
	if (c->o.dst == NULL)
		return 0;
	if (p->type == PACK_DIR)
		return copy_tree_dir(&c->tree, p->path, p->mode, &c->e);
	if (p->type == PACK_LINK)
		return copy_tree_link(&c->tree, p->path, p->target, &c->e);
	return copy_tree_begin(&c->tree, p->path, p, &c->e);
}

static int take_data(struct copy_out *c, const uint8_t *p, uint64_t n)
{
	if (n > c->o.max_bytes - c->bytes)
		return too_large(c, "bytes of data", c->o.max_bytes);
	if (c->o.room != NULL && !take_room(&c->o.room->bytes, n))
		return too_large(c, "bytes of data (all copies together)", c->o.max_bytes);
	c->bytes += n;
	return c->tree.file >= 0 ? copy_tree_data(&c->tree, p, (size_t)n, &c->e) : 0;
}

static int take_event(struct copy_out *c, int ev, const uint8_t *data, uint64_t len)
{
	switch ((enum pack_event)ev) {
	case PACK_EV_ENTRY:
		return take_entry(c, &c->d.entry);
	case PACK_EV_DATA:
		return take_data(c, data, len);
	case PACK_EV_HOLE:
		copy_tree_hole(&c->tree, len);
		return 0;
	case PACK_EV_FILE_END:
		return c->tree.file >= 0 ? copy_tree_end(&c->tree, &c->e) : 0;
	case PACK_EV_END:
		return c->has_root ? 0 : broken(c, "nothing in it");
	case PACK_EV_MORE:
		break;
	}
	return 0;
}

static int feed_some(struct copy_out *c, const uint8_t *p, size_t n)
{
	const uint8_t *data;
	uint64_t len;
	int ev, r = pack_feed(&c->d, p, n);

	if (r < 0)
		return err_set(&c->e, ERR_INTERNAL, -r, "unpacking: %s", strerror(-r));
	while ((ev = pack_next(&c->d, &data, &len)) != PACK_EV_MORE) {
		r = ev < 0 ? broken(c, "a malformed entry") : take_event(c, ev, data, len);
		if (r < 0)
			return r;
	}
	return 0;
}

static int report(const struct copy_out *c, struct err *e)
{
	if (c->status < 0 && e != NULL)
		*e = c->e;
	return c->status;
}

int copy_out_feed(struct copy_out *c, const void *p, size_t n, struct err *e)
{
	const uint8_t *b = p;

	while (n > 0 && c->status == 0) {
		size_t k = MIN(n, (size_t)PACK_FEED_MAX);

		if (c->o.tee != NULL)
			c->status = copy_tee_put(c->o.tee, b, k, &c->e);
		if (c->status == 0)
			c->status = feed_some(c, b, k);
		b += k;
		n -= k;
	}
	if (c->status < 0)
		copy_tree_done(&c->tree);
	return report(c, e);
}

static void finish(struct copy_out *c)
{
	if (c->status == 0 && !pack_complete(&c->d))
		c->status = broken(c, "it ends too early");
	copy_tree_done(&c->tree);
}

int copy_out_finish(struct copy_out *c, struct err *e)
{
	finish(c);
	return report(c, e);
}

/* ---- driving it ---- */

static ssize_t on_data(void *arg, struct stream *s, uint8_t chan, const void *p, size_t n)
{
	int r;

	if (chan != CHAN_OUT)
		return (ssize_t)n;
	r = copy_out_feed(arg, p, n, NULL);
	if (r < 0)
		stream_reset(s);
	return r < 0 ? r : (ssize_t)n;
}

static void on_result(void *arg, struct stream *s, const struct stream_result *r)
{
	struct copy_out *c = arg;

	(void)s;
	c->stream = NULL;
	c->ended = true;
	if (c->status == 0 && r->how == HOW_ERROR)
		c->status = err_set(&c->e, r->err == ENOENT ? ERR_NOT_FOUND : ERR_INVALID, r->err,
				    "%s%s%s", r->text, r->text[0] != '\0' ? ": " : "",
				    strerror(r->err));
	finish(c);
}

static const struct stream_ops out_ops = {.data = on_data, .result = on_result};

int copy_out_open(struct copy_out *c, struct session *s, const char *path, const char *user,
		  uint32_t flags, struct err *e)
{
	int r = c->opened ? err_set(e, ERR_INTERNAL, EALREADY, "a copy runs only once")
			  : copy_open(s, REQ_PACK_OUT, path, user, flags, &out_ops, c, &c->stream, e);

	if (r == 0)
		c->opened = true;
	return r;
}

bool copy_out_ended(const struct copy_out *c) { return c->ended; }

int copy_out_end(struct copy_out *c, struct err *e) { return report(c, e); }

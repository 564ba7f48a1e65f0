#include "session/copy_in.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/*
 * Theory of operation. Two walks over the same source with the same rules: the first measures, the
 * second sends. The source may change between them, and while it is read: limits are enforced again
 * on what is really sent, a file is cut at the size its entry announced, one that went away is an
 * error. Memory is one step of the stream: the next part is made when the last one was taken.
 *
 * The bytes go to the sandbox; the other side can only stop the copy (BROKEN, RESULT).
 */

enum { READ_SIZE = 64 * 1024 };

struct copy_in {
	struct copy_in_opts o;
	char *src; /* for messages */
	int root;  /* the source: a folder or a regular file */
	struct stat root_st;
	uint64_t bytes, entries; /* measured */
	uint64_t sent, sent_entries;

	struct walk *walk;
	int file; /* being read, -1 = none */
	uint64_t pos, size, data_end;
	bool sparse;
	bool begun, complete;

	struct buf out;
	struct stream *stream;
	bool opened, ended;
	int status;
	struct err e;
	uint8_t chunk[READ_SIZE];
};

static int fail(const struct copy_in *c, struct err *e, int errnum, const char *path)
{
	char q[QUOTE_MAX], qp[QUOTE_MAX];
	bool sub = path != NULL && path[0] != '\0';
	enum err_kind k = errnum == ENOENT                       ? ERR_NOT_FOUND
			  : errnum == EACCES || errnum == EPERM ? ERR_DENIED
								: ERR_INTERNAL;

	return err_set(e, k, errnum, "%s%s%s: %s", quote(c->src, q), sub ? ": " : "",
		       sub ? quote(path, qp) : "", strerror(errnum));
}

static int too_large(const struct copy_in *c, struct err *e, const char *what, uint64_t have, uint64_t max)
{
	char q[QUOTE_MAX];

	return err_set(e, ERR_LIMITED, EFBIG, "%s has %llu %s or more, the limit is %llu",
		       quote(c->src, q), (unsigned long long)have, what, (unsigned long long)max);
}

static bool looks_sparse(const struct stat *st) { return st->st_blocks < (st->st_size + 511) / 512; }

/* The next run of data at or after pos: [*pos, *end). False when only a hole is left. */
static bool next_data(int fd, uint64_t *pos, uint64_t *end, uint64_t size)
{
	off_t data = lseek(fd, (off_t)*pos, SEEK_DATA), hole;

	if (data < 0) {
		if (errno == ENXIO)
			return false;
		*end = size; /* a file system that cannot tell */
		return true;
	}
	if ((uint64_t)data >= size)
		return false;
	hole = lseek(fd, data, SEEK_HOLE);
	*pos = MAX(*pos, (uint64_t)data);
	*end = hole < 0 ? size : MIN((uint64_t)hole, size);
	return *end > *pos;
}

static uint64_t data_bytes(int fd, uint64_t size)
{
	uint64_t pos = 0, end = 0, sum = 0;

	while (pos < size && next_data(fd, &pos, &end, size)) {
		sum += end - pos;
		pos = end;
	}
	return sum;
}

/* ---- measuring ---- */

static int measure_file(struct copy_in *c, int dirfd, const char *name, const char *path,
			const struct stat *st, struct err *e)
{
	uint64_t n = (uint64_t)st->st_size;

	if (looks_sparse(st)) {
		_cleanup_close_ int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK |
								 O_NOCTTY | O_CLOEXEC);

		if (fd < 0)
			return fail(c, e, errno, path);
		n = data_bytes(fd, n);
	} else if (faccessat(dirfd, name, R_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW) < 0) {
		return fail(c, e, errno, path);
	}
	if (n > c->o.max_bytes - c->bytes)
		return too_large(c, e, "bytes of data", c->bytes + n, c->o.max_bytes);
	c->bytes += n;
	return 0;
}

static int walk_root(struct copy_in *c, struct copy_warn *warn, struct walk **ret, struct err *e)
{
	int fd = openat(c->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return fail(c, e, errno, NULL);
	return walk_new(fd, &c->o.rules, warn, ret, e);
}

static int measure_folder(struct copy_in *c, struct err *e)
{
	struct walk_entry *w = malloc(sizeof(*w));
	struct walk *walk = NULL;
	int r;

	if (w == NULL)
		return fail(c, e, ENOMEM, NULL);
	r = walk_root(c, &c->o.warn, &walk, e);
	while (r >= 0 && (r = walk_next(walk, w, e)) > 0) {
		if (++c->entries > c->o.max_entries)
			r = too_large(c, e, "entries", c->entries, c->o.max_entries);
		else if (w->type == PACK_FILE)
			r = measure_file(c, w->dirfd, w->name, w->path, &w->st, e);
	}
	walk_free(walk);
	free(w);
	return r;
}

static int open_root(struct copy_in *c, struct err *e)
{
	char q[QUOTE_MAX];

	/* The last component is not followed: a project could have planted it. O_NONBLOCK: a pipe
	 * without a writer would hold us. */
	c->root = open(c->src, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (c->root < 0 && errno == ELOOP)
		return err_set(e, ERR_INVALID, ELOOP,
			       "%s is a symbolic link: name what it points to", quote(c->src, q));
	if (c->root < 0 && errno == ENXIO)
		return err_set(e, ERR_INVALID, EINVAL, "%s is no file or folder", quote(c->src, q));
	if (c->root < 0 || fstat(c->root, &c->root_st) < 0)
		return fail(c, e, errno, NULL);
	if (!S_ISREG(c->root_st.st_mode) && !S_ISDIR(c->root_st.st_mode))
		return err_set(e, ERR_INVALID, EINVAL, "%s is no file or folder", quote(c->src, q));
	return 0;
}

int copy_in_new(const char *src, const struct copy_in_opts *opts, struct copy_in **ret, struct err *e)
{
	struct copy_in *c = calloc(1, sizeof(*c));
	int r;

	if (c == NULL)
		return err_no_memory(e);
	c->o = *opts;
	c->root = c->file = -1;
	c->entries = 1;
	buf_init(&c->out, (size_t)2 * COPY_IN_STEP);
	c->src = strdup(src);
	r = c->src == NULL ? err_no_memory(e) : open_root(c, e);
	if (r == 0 && S_ISDIR(c->root_st.st_mode)) {
		r = measure_folder(c, e);
	} else if (r == 0) {
		uint64_t size = (uint64_t)c->root_st.st_size;

		c->bytes = looks_sparse(&c->root_st) ? data_bytes(c->root, size) : size;
		if (c->bytes > c->o.max_bytes)
			r = too_large(c, e, "bytes of data", c->bytes, c->o.max_bytes);
	}
	if (r < 0) {
		copy_in_free(c);
		return r;
	}
	*ret = c;
	return 0;
}

void copy_in_free(struct copy_in *c)
{
	if (c == NULL)
		return;
	if (c->stream != NULL) {
		stream_reset(c->stream);
		stream_abandon(c->stream);
	}
	walk_free(c->walk);
	if (c->file >= 0)
		(void)close(c->file);
	if (c->root >= 0)
		(void)close(c->root);
	buf_done(&c->out);
	free(c->src);
	free(c);
}

uint64_t copy_in_bytes(const struct copy_in *c) { return c->bytes; }
uint64_t copy_in_sent(const struct copy_in *c) { return c->sent; }
uint64_t copy_in_entries(const struct copy_in *c) { return c->entries; }
bool copy_in_is_dir(const struct copy_in *c) { return S_ISDIR(c->root_st.st_mode); }
const struct copy_warn *copy_in_warnings(const struct copy_in *c) { return &c->o.warn; }

/* ---- making the stream ---- */

static int put_entry(struct copy_in *c, struct buf *b, enum pack_type type, const char *path,
		     const struct stat *st, const char *target, struct err *e)
{
	struct pack_entry *p = calloc(1, sizeof(*p));
	int r = -ENOMEM;

	if (++c->sent_entries > c->o.max_entries)
		r = -EFBIG;
	if (p != NULL && r != -EFBIG) {
		p->type = type;
		p->mode = (uint16_t)(st->st_mode & 0777);
		p->size = type == PACK_FILE ? (uint64_t)st->st_size : 0;
		if (st->st_mtim.tv_sec > 0 && st->st_mtim.tv_sec < INT64_MAX / 1000000000)
			p->mtime_ns = (uint64_t)st->st_mtim.tv_sec * 1000000000u +
				      (uint64_t)st->st_mtim.tv_nsec;
		memcpy(p->path, path, strlen(path) + 1);
		memcpy(p->target, target, strlen(target) + 1);
		r = pack_put_entry(b, p);
	}
	free(p);
	return r < 0 ? fail(c, e, -r, path) : 0;
}

/* Begin a file: takes fd. */
static int begin_file(struct copy_in *c, struct buf *b, int fd, const char *path, struct err *e)
{
	struct stat st;
	int r;

	c->file = fd;
	if (fstat(fd, &st) < 0)
		return fail(c, e, errno, path);
	if (!S_ISREG(st.st_mode))
		return fail(c, e, ESTALE, path); /* swapped after it was listed */
	r = put_entry(c, b, PACK_FILE, path, &st, "", e);
	c->pos = 0;
	c->size = (uint64_t)st.st_size;
	c->sparse = looks_sparse(&st);
	c->data_end = c->sparse ? 0 : c->size;
	return r;
}

static int end_file(struct copy_in *c, struct buf *b, struct err *e)
{
	int r = pack_put_file_end(b);

	(void)close(c->file);
	c->file = -1;
	return r < 0 ? fail(c, e, -r, NULL) : 1;
}

/* The next piece of the open file: a hole, one read, or its end. */
static int file_step(struct copy_in *c, struct buf *b, struct err *e)
{
	ssize_t n;
	int r;

	if (c->pos >= c->size)
		return end_file(c, b, e);
	if (c->pos >= c->data_end) {
		uint64_t start = c->pos;
		bool data = next_data(c->file, &start, &c->data_end, c->size);

		if (!data)
			start = c->data_end = c->size;
		if (start > c->pos) {
			r = pack_put_hole(b, start - c->pos);
			c->pos = start;
			return r < 0 ? fail(c, e, -r, NULL) : 1;
		}
	}
	n = pread(c->file, c->chunk, (size_t)MIN((uint64_t)READ_SIZE, c->data_end - c->pos),
		  (off_t)c->pos);
	if (n < 0)
		return errno == EINTR ? 1 : fail(c, e, errno, NULL);
	if (n == 0) /* it was cut while we read it */
		return end_file(c, b, e);
	if ((uint64_t)n > c->o.max_bytes - c->sent)
		return too_large(c, e, "bytes of data", c->sent + (uint64_t)n, c->o.max_bytes);
	c->sent += (uint64_t)n;
	c->pos += (uint64_t)n;
	r = pack_put_data(b, c->chunk, (size_t)n);
	return r < 0 ? fail(c, e, -r, NULL) : 1;
}

static int begin(struct copy_in *c, struct buf *b, struct err *e)
{
	int fd, r = pack_put_start(b);

	if (r < 0)
		return fail(c, e, -r, NULL);
	c->begun = true;
	if (S_ISDIR(c->root_st.st_mode)) {
		r = put_entry(c, b, PACK_DIR, "", &c->root_st, "", e);
		return r < 0 ? r : walk_root(c, NULL, &c->walk, e);
	}
	fd = fcntl(c->root, F_DUPFD_CLOEXEC, 0);
	return fd < 0 ? fail(c, e, errno, NULL) : begin_file(c, b, fd, "", e);
}

static int entry_step(struct copy_in *c, struct buf *b, struct err *e)
{
	struct walk_entry *w = malloc(sizeof(*w));
	int r, fd;

	if (w == NULL)
		return fail(c, e, ENOMEM, NULL);
	r = c->walk != NULL ? walk_next(c->walk, w, e) : 0;
	if (r > 0 && w->type == PACK_FILE) {
		fd = openat(w->dirfd, w->name,
			    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		r = fd < 0 ? fail(c, e, errno, w->path) : begin_file(c, b, fd, w->path, e);
	} else if (r > 0) {
		r = put_entry(c, b, w->type, w->path, &w->st, w->type == PACK_LINK ? w->target : "",
			      e);
	} else if (r == 0) {
		c->complete = true;
		r = pack_put_end(b);
		if (r < 0)
			r = fail(c, e, -r, NULL);
	}
	free(w);
	return r;
}

int copy_in_fill(struct copy_in *c, struct buf *b, struct err *e)
{
	size_t before = b->len;
	int r = c->begun ? 0 : begin(c, b, e);

	/* One more step always fits: an entry with its path and target, or one read. */
	while (r >= 0 && !c->complete && b->len - before < COPY_IN_STEP - READ_SIZE - 1024)
		r = c->file >= 0 ? file_step(c, b, e) : entry_step(c, b, e);
	if (r >= 0 && c->o.tee != NULL)
		r = copy_tee_put(c->o.tee, buf_head(b) + before, b->len - before, e);
	if (r < 0)
		return r;
	return c->complete ? 0 : 1;
}

/* ---- driving it ---- */

static void stop(struct copy_in *c, int r)
{
	c->status = r;
	stream_reset(c->stream);
}

static void pump(struct copy_in *c)
{
	while (c->status == 0) {
		ssize_t n;

		if (c->out.len == 0 && c->complete) {
			stream_eof(c->stream);
			return;
		}
		if (c->out.len == 0) {
			int r = copy_in_fill(c, &c->out, &c->e);

			if (r < 0) {
				stop(c, r);
				return;
			}
		}
		n = stream_write(c->stream, buf_head(&c->out), c->out.len);
		if (n < 0) /* the sandbox wants no more: its RESULT says why */
			return;
		buf_consume(&c->out, (size_t)n);
		if (c->out.len > 0)
			return;
	}
}

static void on_writable(void *arg, struct stream *s)
{
	(void)s;
	pump(arg);
}

static void on_result(void *arg, struct stream *s, const struct stream_result *r)
{
	struct copy_in *c = arg;
	char q[QUOTE_MAX];

	(void)s;
	c->stream = NULL;
	c->ended = true;
	if (c->status != 0)
		return;
	if (r->how == HOW_ERROR)
		c->status = err_set(&c->e, ERR_INVALID, r->err, "copying %s in: %s%s%s",
				    quote(c->src, q), r->text, r->text[0] != '\0' ? ": " : "",
				    strerror(r->err));
	else if (r->how != HOW_DONE || !c->complete || c->out.len > 0)
		c->status = err_set(&c->e, ERR_LOST, EPROTO,
				    "copying %s in: the sandbox stopped before the end",
				    quote(c->src, q));
}

static const struct stream_ops in_ops = {.writable = on_writable, .result = on_result};

int copy_in_open(struct copy_in *c, struct session *s, const char *path, const char *user,
		 uint32_t flags, struct err *e)
{
	int r = c->opened ? err_set(e, ERR_INTERNAL, EALREADY, "a copy runs only once")
			  : copy_open(s, REQ_PACK_IN, path, user, flags, &in_ops, c, &c->stream, e);

	if (r < 0)
		return r;
	c->opened = true;
	pump(c);
	return 0;
}

bool copy_in_ended(const struct copy_in *c) { return c->ended; }

int copy_in_end(struct copy_in *c, struct err *e)
{
	if (c->status < 0 && e != NULL)
		*e = c->e;
	return c->status;
}

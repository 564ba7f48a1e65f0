#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "image/store_priv.h"
#include "parse/tar.h"
#include "sys/call.h"
#include "sys/file.h"
#include "sys/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * The unpacker. It reads a hostile stream and writes below one folder, in a process that can do nothing
 * else (jail.c). A path is walked by openat2(2) with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS, so a link in
 * the stream leads nowhere, also not one that replaced a folder: nothing is replaced at all, an entry that
 * is there already refuses the stream, but for folders, whose later entry sets mode, owner and time.
 *
 * Modes, owners and times of folders are set at the end, deepest first: what is written into a folder
 * changes its time, and its mode may forbid the writing.
 */

enum { IN_SIZE = 1024 * 1024, BYTES_GIB = 64, ENTRIES_MAX = 4000000, PROGRESS_STEP = 8 * 1024 * 1024 };

struct folder {
	char *path;
	size_t turn; /* when it came */
	uint32_t mode, uid, gid;
	int64_t mtime;
};

struct unpack {
	int in, root;
	bool owners; /* root: owners are kept */
	uint8_t *buf;
	size_t at, have;
	bool eof;
	char parent[TAR_PATH_MAX]; /* the folder parent_fd is open on */
	int parent_fd;             /* -1 = none */
	struct folder *folders;
	size_t folders_n, folders_cap;
	struct image_limits lim;
	struct image_stats *st;
	image_progress fn;
	void *arg;
	uint64_t told;
	struct tar tar;
	struct tar_entry entry;
	struct err *e;
};

static int refuse(struct unpack *u, const char *path, const char *why)
{
	char q[QUOTE_MAX];

	return err_set(u->e, ERR_INVALID, EINVAL, "the stream is refused at %s: %s", quote(path, q), why);
}

static int broke(struct unpack *u, const char *path, int r)
{
	char q[QUOTE_MAX];

	return err_set(u->e, ERR_INTERNAL, -r, "unpacking %s: %s", quote(path, q), strerror(-r));
}

/* ---- the stream ---- */

/* Up to n bytes that are there, at least one; 0 at the end. */
static ssize_t take(struct unpack *u, const uint8_t **ret, size_t n)
{
	if (u->at == u->have) {
		ssize_t got;

		do
			got = read(u->in, u->buf, IN_SIZE);
		while (got < 0 && errno == EINTR);
		if (got < 0)
			return err_set(u->e, ERR_INTERNAL, errno, "reading the stream: %s", strerror(errno));
		u->at = 0;
		u->have = (size_t)got;
		if (got == 0)
			return 0;
	}
	n = MIN(n, u->have - u->at);
	*ret = u->buf + u->at;
	u->at += n;
	return (ssize_t)n;
}

/* Exactly n bytes into dst. 1 = there, 0 = the stream ended before the first, -errno. */
static int take_all(struct unpack *u, uint8_t *dst, size_t n)
{
	size_t done = 0;

	while (done < n) {
		const uint8_t *p;
		ssize_t got = take(u, &p, n - done);

		if (got < 0)
			return (int)got;
		if (got == 0)
			return done == 0 ? 0 : refuse(u, u->entry.path, "it is cut off");
		memcpy(dst + done, p, (size_t)got);
		done += (size_t)got;
	}
	return 1;
}

static size_t padding(uint64_t n) { return (size_t)(-n & (TAR_BLOCK - 1)); }

static int skip(struct unpack *u, size_t n)
{
	uint8_t pad[TAR_BLOCK];
	int r = n == 0 ? 1 : take_all(u, pad, n);

	return r == 1 ? 0 : r == 0 ? refuse(u, u->entry.path, "it is cut off") : r;
}

/* ---- folders ---- */

static int open_beneath(int dirfd, const char *path)
{
	return sys_openat2(dirfd, path[0] == '\0' ? "." : path, O_PATH | O_DIRECTORY | O_CLOEXEC,
			   RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

static int note_folder(struct unpack *u, const struct tar_entry *t)
{
	if (u->folders_n == u->folders_cap) {
		size_t cap = u->folders_cap == 0 ? 256 : u->folders_cap * 2;
		struct folder *v = realloc(u->folders, cap * sizeof(*v));

		if (v == NULL)
			return broke(u, t->path, -ENOMEM);
		u->folders = v;
		u->folders_cap = cap;
	}
	u->folders[u->folders_n] = (struct folder){
	    .path = strdup(t->path), .turn = u->folders_n, .mode = t->mode, .uid = t->uid, .gid = t->gid, .mtime = t->mtime};
	if (u->folders[u->folders_n].path == NULL)
		return broke(u, t->path, -ENOMEM);
	u->folders_n++;
	return 0;
}

/* A folder nobody described: 0755, of root, at the epoch, so that the digest does not depend on the clock. */
static int make_parents(struct unpack *u, const char *path)
{
	char part[TAR_PATH_MAX];
	size_t n = strlen(path);

	for (size_t i = 1; i <= n; i++) {
		_cleanup_close_ int fd = -1;
		struct tar_entry t = {.type = TAR_DIR, .mode = 0755};
		char *slash;

		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		memcpy(t.path, part, i + 1);
		slash = strrchr(part, '/');
		if (slash != NULL)
			*slash = '\0';
		fd = open_beneath(u->root, slash != NULL ? part : "");
		if (fd < 0)
			return fd;
		if (mkdirat(fd, slash != NULL ? slash + 1 : part, 0700) == 0) {
			int r = note_folder(u, &t);

			if (r < 0)
				return r;
		} else if (errno != EEXIST) {
			return -errno;
		}
	}
	return 0;
}

/* The folder an entry lies in; *ret_name is its last component. A descriptor that stays u's, or -errno. */
static int parent_of(struct unpack *u, char *path, const char **ret_name)
{
	char *slash = strrchr(path, '/');
	int r;

	*ret_name = slash != NULL ? slash + 1 : path;
	if (slash != NULL)
		*slash = '\0';
	if (u->parent_fd >= 0 && strcmp(u->parent, slash != NULL ? path : "") == 0) {
		r = u->parent_fd;
	} else {
		if (u->parent_fd >= 0)
			(void)close(steal_fd(&u->parent_fd));
		r = open_beneath(u->root, slash != NULL ? path : "");
		if (r == -ENOENT && slash != NULL && (r = make_parents(u, path)) == 0)
			r = open_beneath(u->root, path);
		u->parent_fd = r;
		(void)snprintf(u->parent, sizeof(u->parent), "%s", slash != NULL ? path : "");
	}
	if (slash != NULL)
		*slash = '/';
	return r;
}

static int put_folder(struct unpack *u, const struct tar_entry *t, int dirfd, const char *name)
{
	struct stat st;

	if (mkdirat(dirfd, name, 0700) < 0) {
		if (errno != EEXIST)
			return broke(u, t->path, -errno);
		if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
			return refuse(u, t->path, "it is there already, and no folder");
	}
	return note_folder(u, t);
}

static int by_path(const void *a, const void *b)
{
	const struct folder *x = a, *y = b;
	int c = strcmp(x->path, y->path);

	return c != 0 ? c : x->turn < y->turn ? -1 : 1;
}

/* From the end of the sorted list, which is deepest first; of the same folder twice the later entry counts. */
static int finish_folders(struct unpack *u)
{
	qsort(u->folders, u->folders_n, sizeof(*u->folders), by_path);
	for (size_t i = u->folders_n; i-- > 0;) {
		const struct folder *f = &u->folders[i];
		struct timespec t[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = f->mtime}};
		_cleanup_close_ int path_fd = -1, fd = -1;

		if (i + 1 < u->folders_n && strcmp(f->path, f[1].path) == 0)
			continue;
		path_fd = open_beneath(u->root, f->path);
		fd = path_fd < 0 ? -1 : openat(path_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0 || (u->owners && fchown(fd, f->uid, f->gid) < 0) || futimens(fd, t) < 0 ||
		    fchmod(fd, f->mode) < 0)
			return broke(u, f->path, path_fd < 0 ? path_fd : -errno);
	}
	return 0;
}

/* ---- other entries ---- */

static int taken(struct unpack *u, const struct tar_entry *t)
{
	return errno == EEXIST ? refuse(u, t->path, "the same name twice") : broke(u, t->path, -errno);
}

static int copy_contents(struct unpack *u, const struct tar_entry *t, int fd)
{
	uint64_t left = t->size;

	while (left > 0) {
		const uint8_t *p;
		ssize_t n = take(u, &p, (size_t)MIN(left, (uint64_t)IN_SIZE));
		int r;

		if (n < 0)
			return (int)n;
		if (n == 0)
			return refuse(u, t->path, "it is cut off");
		r = file_write_all(fd, p, (size_t)n);
		if (r < 0)
			return broke(u, t->path, r);
		left -= (uint64_t)n;
	}
	return skip(u, padding(t->size));
}

static int put_file(struct unpack *u, const struct tar_entry *t, int dirfd, const char *name)
{
	_cleanup_close_ int fd =
	    openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = t->mtime}};
	int r;

	if (fd < 0)
		return taken(u, t);
	r = copy_contents(u, t, fd);
	if (r < 0)
		return r;
	/* the owner first: changing it clears the setuid bit */
	if ((u->owners && fchown(fd, t->uid, t->gid) < 0) || fchmod(fd, t->mode) < 0 || futimens(fd, times) < 0)
		return broke(u, t->path, -errno);
	return 0;
}

static int put_symlink(struct unpack *u, const struct tar_entry *t, int dirfd, const char *name)
{
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = t->mtime}};

	if (symlinkat(t->target, dirfd, name) < 0)
		return taken(u, t);
	if ((u->owners && fchownat(dirfd, name, t->uid, t->gid, AT_SYMLINK_NOFOLLOW) < 0) ||
	    utimensat(dirfd, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return broke(u, t->path, -errno);
	return 0;
}

/* To a file or link that came before in the same stream. */
static int put_hardlink(struct unpack *u, struct tar_entry *t, int dirfd, const char *name)
{
	char *slash = strrchr(t->target, '/');
	const char *last = slash != NULL ? slash + 1 : t->target;
	_cleanup_close_ int from = -1;
	struct stat st;

	if (slash != NULL)
		*slash = '\0';
	from = open_beneath(u->root, slash != NULL ? t->target : "");
	if (from < 0 || fstatat(from, last, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return refuse(u, t->path, "a hard link to something that did not come before");
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return refuse(u, t->path, "a hard link to something that is no file");
	return linkat(from, last, dirfd, name, 0) < 0 ? taken(u, t) : 0;
}

static int put_entry(struct unpack *u, struct tar_entry *t)
{
	const char *name;
	int dirfd;

	if (t->path[0] == '\0') /* the root itself */
		return note_folder(u, t);
	dirfd = parent_of(u, t->path, &name);
	if (dirfd == -ELOOP || dirfd == -ENOTDIR || dirfd == -EXDEV)
		return refuse(u, t->path, "its path leads through something that is no folder");
	if (dirfd < 0)
		return broke(u, t->path, dirfd);
	switch (t->type) {
	case TAR_DIR:
		return put_folder(u, t, dirfd, name);
	case TAR_FILE:
		return put_file(u, t, dirfd, name);
	case TAR_SYMLINK:
		return put_symlink(u, t, dirfd, name);
	case TAR_HARDLINK:
		return put_hardlink(u, t, dirfd, name);
	case TAR_SPECIAL:
		u->st->left_out++;
		return 0;
	}
	return 0;
}

static int count(struct unpack *u, const struct tar_entry *t)
{
	if (++u->st->entries > u->lim.entries)
		return err_set(u->e, ERR_LIMITED, E2BIG, "more than %llu entries",
			       (unsigned long long)u->lim.entries);
	if (t->size > u->lim.bytes || u->st->bytes > u->lim.bytes - t->size)
		return err_set(u->e, ERR_LIMITED, EFBIG, "more than %llu bytes",
			       (unsigned long long)u->lim.bytes);
	u->st->bytes += t->size;
	if (u->owners && (t->uid > 65535 || t->gid > 65535))
		return refuse(u, t->path, "an owner outside 0 to 65535, the ids of a sandbox");
	if (u->fn != NULL && u->st->bytes - u->told >= PROGRESS_STEP) {
		u->told = u->st->bytes;
		u->fn(u->arg, u->st->bytes, u->st->entries);
	}
	return 0;
}

static int read_meta(struct unpack *u, size_t n, const char **why)
{
	_cleanup_free_ uint8_t *p = malloc(n);
	int r;

	if (p == NULL)
		return broke(u, "", -ENOMEM);
	r = take_all(u, p, n);
	if (r < 0)
		return r;
	if (r == 0)
		return refuse(u, u->entry.path, "it is cut off");
	if (tar_meta(&u->tar, p, n, why) < 0)
		return refuse(u, u->entry.path, *why);
	return skip(u, padding(n));
}

static int unpack_all(struct unpack *u)
{
	for (;;) {
		uint8_t block[TAR_BLOCK];
		const char *why = "unknown";
		size_t meta = 0;
		int r = take_all(u, block, sizeof(block));

		if (r < 0)
			return r;
		if (r == 0)
			return u->tar.ended ? 0 : refuse(u, u->entry.path, "it is cut off");
		r = tar_header(&u->tar, block, &u->entry, &meta, &why);
		if (r < 0)
			return refuse(u, u->entry.path, why);
		if (r == TAR_ENTRY && (r = count(u, &u->entry)) == 0)
			r = put_entry(u, &u->entry);
		else if (r == TAR_META)
			r = read_meta(u, meta, &why);
		if (r < 0)
			return r;
	}
}

int intake_unpack(int tar_fd, int dirfd, const struct image_limits *lim, image_progress fn, void *arg,
		  struct image_stats *st, struct err *e)
{
	_cleanup_free_ struct unpack *u = calloc(1, sizeof(*u));
	_cleanup_free_ uint8_t *buf = malloc(IN_SIZE);
	int r;

	if (u == NULL || buf == NULL)
		return err_set(e, ERR_INTERNAL, ENOMEM, "out of memory");
	*u = (struct unpack){.in = tar_fd, .root = dirfd, .owners = ids_host_root(), .buf = buf, .parent_fd = -1,
			     .st = st, .fn = fn, .arg = arg, .e = e};
	u->lim.bytes = lim->bytes != 0 ? lim->bytes : (uint64_t)BYTES_GIB << 30;
	u->lim.entries = lim->entries != 0 ? lim->entries : ENTRIES_MAX;
	*st = (struct image_stats){0};
	u->entry = (struct tar_entry){.type = TAR_DIR, .mode = 0755}; /* a root the stream does not describe */
	r = note_folder(u, &u->entry);
	if (r == 0)
		r = unpack_all(u);
	if (r == 0 && st->entries == 0)
		r = err_set(e, ERR_INVALID, EINVAL, "the stream is refused: it holds nothing");
	if (r == 0)
		r = finish_folders(u);
	if (u->parent_fd >= 0)
		(void)close(u->parent_fd);
	for (size_t i = 0; i < u->folders_n; i++)
		free(u->folders[i].path);
	free(u->folders);
	return r;
}

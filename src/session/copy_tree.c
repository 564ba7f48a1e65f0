#include "session/copy_tree.h"

#include "base/cleanup.h"
#include "base/quote.h"
#include "sys/file.h"
#include "sys/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Theory of operation. Every path comes from a sandbox. The folder of an entry is opened by one
 * openat2 beneath the root that refuses links in every component; the last component is then used
 * with calls that do not follow one (mkdirat, O_EXCL, symlinkat, renameat). So writing "through" a
 * link that the same stream made before fails with ELOOP, and so does a link of the host's own: a
 * sandbox must not choose where that leads.
 *
 * Files and links are made under a random hidden name and renamed: a reader of the destination never
 * sees half a file, and what was there before is replaced, not written into.
 */

static int fail(struct err *e, int errnum, const char *path)
{
	char q[QUOTE_MAX];
	enum err_kind k = errnum == EACCES || errnum == EPERM || errnum == ELOOP ? ERR_DENIED
			  : errnum == ENOENT                                        ? ERR_NOT_FOUND
										    : ERR_INTERNAL;

	return err_set(e, k, errnum, "writing %s: %s", quote(path, q),
		       errnum == ELOOP ? "the way there is a symbolic link" : strerror(errnum));
}

static int temp_name(char dst[32])
{
	uint64_t r;

	if (getrandom(&r, sizeof(r), 0) != (ssize_t)sizeof(r))
		return -EIO;
	(void)snprintf(dst, 32, ".brig-%016llx", (unsigned long long)r);
	return 0;
}

int copy_tree_root(struct copy_tree *t, const char *dst, uint16_t mode, struct err *e)
{
	if (mkdir(dst, mode | S_IRWXU) < 0 && errno != EEXIST)
		return fail(e, errno, dst);
	t->root = open(dst, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return t->root < 0 ? fail(e, errno, dst) : 0;
}

int copy_tree_file_root(struct copy_tree *t, const char *dst, const char *name, char ret_name[256],
			struct err *e)
{
	_cleanup_free_ char *dir = NULL;
	const char *slash = strrchr(dst, '/');
	const char *base = slash != NULL ? slash + 1 : dst;
	size_t n;

	t->root = open(dst, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t->root >= 0) {
		base = name;
	} else if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP) {
		return fail(e, errno, dst);
	} else {
		dir = slash == NULL ? strdup(".")
				    : strndup(dst, slash == dst ? 1 : (size_t)(slash - dst));
		if (dir == NULL)
			return fail(e, ENOMEM, dst);
		t->root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (t->root < 0)
			return fail(e, errno, dst);
	}
	n = base != NULL ? strlen(base) : 0;
	if (n == 0 || strchr(base, '/') != NULL || !pack_path_ok(base, n))
		return fail(e, base == name ? EINVAL : ENOENT, dst);
	memcpy(ret_name, base, n + 1);
	return 0;
}

/* Open the folder `path` is in as t->parent; returns its last component, NULL with *e set. */
static const char *enter_parent(struct copy_tree *t, const char *path, int *ret, struct err *e)
{
	const char *slash = strrchr(path, '/');
	size_t n = slash != NULL ? (size_t)(slash - path) : 0;

	if (t->parent < 0 || strlen(t->parent_path) != n || memcmp(t->parent_path, path, n) != 0) {
		if (t->parent >= 0)
			(void)close(t->parent);
		memcpy(t->parent_path, path, n);
		t->parent_path[n] = '\0';
		t->parent = path_open_beneath(t->root, n > 0 ? t->parent_path : ".",
					      O_PATH | O_DIRECTORY, 0);
		if (t->parent < 0) {
			*ret = fail(e, -t->parent, path);
			t->parent = -1;
			return NULL;
		}
	}
	*ret = 0;
	return slash != NULL ? slash + 1 : path;
}

int copy_tree_dir(struct copy_tree *t, const char *path, uint16_t mode, struct err *e)
{
	_cleanup_close_ int fd = -1;
	int r;
	const char *name = enter_parent(t, path, &r, e);

	if (name == NULL)
		return r;
	if (mkdirat(t->parent, name, (mode & 0777) | S_IRWXU) == 0)
		return 0;
	if (errno != EEXIST)
		return fail(e, errno, path);
	fd = path_open_beneath(t->parent, name, O_PATH | O_DIRECTORY, 0);
	return fd < 0 ? fail(e, -fd, path) : 0;
}

int copy_tree_link(struct copy_tree *t, const char *path, const char *target, struct err *e)
{
	char temp[32];
	int r;
	const char *name = enter_parent(t, path, &r, e);

	if (name == NULL)
		return r;
	r = temp_name(temp);
	if (r < 0)
		return fail(e, -r, path);
	if (symlinkat(target, t->parent, temp) < 0)
		return fail(e, errno, path);
	if (renameat(t->parent, temp, t->parent, name) < 0) {
		r = fail(e, errno, path);
		(void)unlinkat(t->parent, temp, 0);
		return r;
	}
	return 0;
}

int copy_tree_begin(struct copy_tree *t, const char *path, const struct pack_entry *p, struct err *e)
{
	int r;
	const char *name = enter_parent(t, path, &r, e);

	if (name == NULL)
		return r;
	r = temp_name(t->temp);
	if (r < 0)
		return fail(e, -r, path);
	t->file = path_open_beneath(t->parent, t->temp, O_WRONLY | O_CREAT | O_EXCL,
				    (mode_t)(p->mode & 0777));
	if (t->file < 0) {
		r = fail(e, -t->file, path);
		t->file = -1;
		return r;
	}
	(void)snprintf(t->name, sizeof(t->name), "%s", name); /* at most 255 bytes: pack_path_ok */
	t->pos = 0;
	t->mtime_ns = p->mtime_ns;
	return 0;
}

int copy_tree_data(struct copy_tree *t, const void *p, size_t n, struct err *e)
{
	const char *b = p;

	while (n > 0) {
		ssize_t k = pwrite(t->file, b, n, (off_t)t->pos);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return fail(e, k < 0 ? errno : EIO, t->name);
		b += k;
		n -= (size_t)k;
		t->pos += (uint64_t)k;
	}
	return 0;
}

void copy_tree_hole(struct copy_tree *t, uint64_t n) { t->pos += n; }

int copy_tree_end(struct copy_tree *t, struct err *e)
{
	struct timespec ts[2] = {{.tv_nsec = UTIME_OMIT},
				 {.tv_sec = (time_t)(t->mtime_ns / 1000000000u),
				  .tv_nsec = (long)(t->mtime_ns % 1000000000u)}};
	int fd = steal_fd(&t->file), r = 0;

	/* A hole at the end has no data after it: the size must be set. */
	if (ftruncate(fd, (off_t)t->pos) < 0)
		r = fail(e, errno, t->name);
	if (t->mtime_ns != 0)
		(void)futimens(fd, ts);
	(void)close(fd);
	if (r == 0 && renameat(t->parent, t->temp, t->parent, t->name) < 0)
		r = fail(e, errno, t->name);
	if (r < 0)
		(void)unlinkat(t->parent, t->temp, 0);
	return r;
}

void copy_tree_done(struct copy_tree *t)
{
	if (t->file >= 0) {
		(void)close(t->file);
		(void)unlinkat(t->parent, t->temp, 0);
	}
	if (t->parent >= 0)
		(void)close(t->parent);
	if (t->root >= 0)
		(void)close(t->root);
	*t = COPY_TREE_INIT;
}

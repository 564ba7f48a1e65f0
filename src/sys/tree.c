#include "base/cleanup.h"
#include "base/err.h"
#include "sys/call.h"
#include "sys/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Fed by archives and by what sandboxes wrote: names of any bytes, any modes. The depth is bounded, since each level holds a
 * descriptor. */

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void tree_names_done(struct tree_names *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
}

static int add(struct tree_names *l, const char *name)
{
	if (l->n == l->cap) {
		size_t cap = l->cap == 0 ? 32 : l->cap * 2;
		char **v = realloc(l->v, cap * sizeof(*v));

		if (v == NULL)
			return -ENOMEM;
		l->v = v;
		l->cap = cap;
	}
	l->v[l->n] = strdup(name);
	return l->v[l->n] == NULL ? -ENOMEM : (l->n++, 0);
}

int tree_names(int fd, struct tree_names *ret)
{
	int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = own < 0 ? NULL : fdopendir(own);
	struct dirent *e;
	int r = 0;

	if (d == NULL) {
		r = -errno;
		if (own >= 0)
			(void)close(own);
		return r;
	}
	while (r == 0 && (errno = 0, e = readdir(d)) != NULL)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = add(ret, e->d_name);
	if (r == 0 && errno != 0)
		r = -errno;
	(void)closedir(d);
	if (ret->n > 0)
		qsort(ret->v, ret->n, sizeof(*ret->v), by_bytes);
	return r;
}

static int enter(int dirfd, const char *path, uint64_t resolve)
{
	const uint64_t flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
	int fd = sys_openat2(dirfd, path, flags, resolve);

	if (fd == -EACCES && fchmodat(dirfd, path, 0700, 0) == 0)
		fd = sys_openat2(dirfd, path, flags, resolve);
	return fd;
}

int tree_enter(int dirfd, const char *name) { return enter(dirfd, name, RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS); }

static int remove_in(int fd, unsigned depth);

static int remove_one(int dirfd, const char *name, unsigned depth)
{
	_cleanup_close_ int fd = -1;
	int r;

	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	fd = depth == 0 ? enter(dirfd, name, 0) : tree_enter(dirfd, name);
	if (fd < 0)
		return fd;
	(void)fchmod(fd, 0700);
	r = remove_in(fd, depth + 1);
	if (r == 0 && unlinkat(dirfd, name, AT_REMOVEDIR) < 0)
		r = -errno;
	return r;
}

static int remove_in(int fd, unsigned depth)
{
	struct tree_names l = TREE_NAMES_INIT;
	int r = depth > TREE_DEPTH_MAX ? -ELOOP : tree_names(fd, &l);

	for (size_t i = 0; i < l.n; i++) {
		int one = remove_one(fd, l.v[i], depth);

		r = r == 0 ? one : r;
	}
	tree_names_done(&l);
	return r;
}

int tree_remove(int dirfd, const char *path) { return remove_one(dirfd, path, 0); }


#include "guest/worker.h"

#include "base/cleanup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/*
 * MKDIR, MOVE, REMOVE. A recursive REMOVE must get rid of any tree a program can build, also one
 * that is far deeper than descriptors or path names reach: below DEEP levels a folder is moved up to the
 * top of the tree first and met again there. It never follows a symbolic link.
 */

enum { DEEP = 64 };

int fileop_mkdir(struct worker *w)
{
	mode_t mode = ask_has(w->ask, F_MODE) ? (mode_t)w->ask->mode : 0755;
	bool parents = w->ask->flags & REQ_PARENTS;
	struct stat st;
	int r = parents ? worker_parents(w->path) : 0;

	if (r < 0)
		return worker_fail(w, -r, "mkdir", w->path);
	if (mkdir(w->path, mode) < 0) {
		if (errno == EEXIST && parents && stat(w->path, &st) == 0 && S_ISDIR(st.st_mode))
			return 0;
		return worker_fail(w, errno, "mkdir", w->path);
	}
	if (ask_has(w->ask, F_MODE) && chmod(w->path, mode) < 0)
		return worker_fail(w, errno, "setting the mode of", w->path);
	return 0;
}

int fileop_move(struct worker *w)
{
	char to[4096] = "";

	if (ask_copy(&w->ask->path2, to, sizeof(to)) < 0 || to[0] != '/')
		return worker_fail(w, EINVAL, "not an absolute path", to);
	if (w->ask->flags & REQ_PARENTS) {
		int r = worker_parents(to);

		if (r < 0)
			return worker_fail(w, -r, "move to", to);
	}
	if (rename(w->path, to) < 0)
		return worker_fail(w, errno, "move", w->path);
	return 0;
}

struct removal {
	int top;       /* the tree's top folder */
	uint64_t moved; /* folders moved up so far, for their names */
};

static int empty_folder(struct removal *rm, int fd, int depth);

static int remove_folder(struct removal *rm, int at, const char *name, int depth)
{
	int fd, r;

	if (unlinkat(at, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	if (errno != ENOTEMPTY && errno != EEXIST)
		return -errno;
	if (depth >= DEEP) {
		char up[48];

		(void)snprintf(up, sizeof(up), ".brig-remove-%llu", (unsigned long long)rm->moved++);
		return renameat(at, name, rm->top, up) < 0 ? -errno : 0;
	}
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = empty_folder(rm, fd, depth + 1);
	if (r < 0)
		return r;
	return unlinkat(at, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

/* Takes fd. */
static int empty_folder(struct removal *rm, int fd, int depth)
{
	DIR *dir = fdopendir(fd);
	struct dirent *e;
	int r = 0;

	if (dir == NULL) {
		r = -errno;
		(void)close(fd);
		return r;
	}
	while (r == 0 && (e = readdir(dir)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (unlinkat(dirfd(dir), e->d_name, 0) == 0 || errno == ENOENT)
			continue;
		r = errno == EISDIR || errno == EPERM ? remove_folder(rm, dirfd(dir), e->d_name, depth) : -errno;
	}
	(void)closedir(dir);
	return r;
}

static int remove_tree(const char *path)
{
	_cleanup_close_ int top = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct removal rm = {.top = top};
	uint64_t before;
	int r;

	if (top < 0)
		return -errno;
	do { /* again while folders were moved up during the pass */
		int fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		before = rm.moved;
		if (fd < 0)
			return -errno;
		r = empty_folder(&rm, fd, 0);
	} while (r == 0 && rm.moved != before);
	if (r < 0)
		return r;
	return rmdir(path) < 0 ? -errno : 0;
}

/* Whether the request keeps this file: it is the one that its second path leads to. */
static bool is_kept(const struct worker *w, const struct stat *st)
{
	char keep[4096];
	struct stat other;

	return w->ask->path2.p != NULL && ask_copy(&w->ask->path2, keep, sizeof(keep)) == 0 && stat(keep, &other) == 0 &&
	       other.st_dev == st->st_dev && other.st_ino == st->st_ino;
}

int fileop_remove(struct worker *w)
{
	struct stat st;
	int r;

	if (lstat(w->path, &st) < 0)
		return worker_fail(w, errno, "remove", w->path);
	if (is_kept(w, &st))
		return 0;
	if (!S_ISDIR(st.st_mode))
		r = unlink(w->path) < 0 ? -errno : 0;
	else if (w->ask->flags & REQ_RECURSIVE)
		r = remove_tree(w->path);
	else
		r = rmdir(w->path) < 0 ? -errno : 0;
	return r < 0 ? worker_fail(w, -r, "remove", w->path) : 0;
}

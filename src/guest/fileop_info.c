#include "guest/entry.h"
#include "guest/worker.h"

#include "base/cleanup.h"
#include "base/num.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/*
 * STAT and LIST: records about files. Folders are walked by descriptor, one per level (at most 64),
 * and never through a symbolic link. A file that vanishes during the walk is left out.
 */

enum { DEPTH_MAX = 64 };

static int send_entry(struct worker *w, struct entry_names *names, int at, const char *name, const char *shown,
		      const struct stat *st)
{
	struct buf b;
	struct msg_writer rec = {.b = &b};
	int r;

	buf_init(&b, MSG_RECORD_MAX);
	msg_str(&rec, F_NAME, shown);
	entry_put(w, names, &rec, at, name, shown, st);
	r = worker_record(w, &rec);
	buf_done(&b);
	return r;
}

int fileop_stat(struct worker *w)
{
	struct entry_names names = {0};
	struct stat st;
	int r;

	if (fstatat(AT_FDCWD, w->path, &st, w->ask->flags & REQ_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0) < 0)
		return worker_fail(w, errno, "stat", w->path);
	r = send_entry(w, &names, AT_FDCWD, w->path, "", &st);
	entry_names_done(&names);
	return r;
}

struct walk {
	DIR *dir[DEPTH_MAX];
	size_t end[DEPTH_MAX]; /* where the names of this level start in `shown` */
	size_t n;
	char shown[4096];
};

static int enter(struct walk *k, int fd, size_t len)
{
	k->dir[k->n] = fdopendir(fd);
	if (k->dir[k->n] == NULL) {
		int err = errno;

		(void)close(fd);
		return -err;
	}
	k->end[k->n++] = len;
	return 0;
}

/* One entry of the innermost folder. 1: more, 0: the walk is over, or -errno (reported). */
static int step(struct worker *w, struct walk *k, struct entry_names *names, size_t depth)
{
	DIR *dir = k->dir[k->n - 1];
	size_t at = k->end[k->n - 1], len;
	struct dirent *e = readdir(dir);
	struct stat st;
	int r;

	if (e == NULL) {
		(void)closedir(dir);
		k->n--;
		return k->n > 0;
	}
	len = strlen(e->d_name);
	if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || at + len + 1 > sizeof(k->shown))
		return 1;
	memcpy(k->shown + at, e->d_name, len + 1);
	if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 1;
	r = send_entry(w, names, dirfd(dir), e->d_name, k->shown, &st);
	if (r < 0)
		return r;
	if (S_ISDIR(st.st_mode) && k->n < depth && at + len + 2 <= sizeof(k->shown)) {
		int fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		k->shown[at + len] = '/';
		if (fd >= 0)
			(void)enter(k, fd, at + len + 1);
	}
	return 1;
}

int fileop_list(struct worker *w)
{
	static struct walk k;
	struct entry_names names = {0};
	size_t depth = ask_has(w->ask, F_DEPTH) ? (size_t)w->ask->depth : 1;
	int fd = open(w->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;

	if (fd < 0)
		return worker_fail(w, errno, "list", w->path);
	r = enter(&k, fd, 0);
	if (r < 0)
		return worker_fail(w, -r, "list", w->path);
	while ((r = step(w, &k, &names, MIN(MAX(depth, (size_t)1), (size_t)DEPTH_MAX))) > 0)
		continue;
	entry_names_done(&names);
	return r;
}

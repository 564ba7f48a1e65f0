#include "session/copy_walk.h"

#include "base/cleanup.h"
#include "base/quote.h"
#include "parse/gitignore.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>
#include <unistd.h>

/*
 * Theory of operation. The tree belongs to the caller but its contents may be anybody's (a cloned
 * project), and it may change meanwhile. Every name is looked at and opened relative to the folder it
 * was read from, one component at a time, with O_NOFOLLOW: no link is ever followed, so nothing
 * outside of the tree is read. Links are carried as links if they cannot lead out; what is no file,
 * folder or such a link is left out with a warning.
 */

struct level {
	DIR *dir;
	size_t path_len; /* of the folder's own path */
	struct gitignore *ignore;
};

struct walk {
	const struct walk_rules *rules;
	struct copy_warn *warn;
	bool descend; /* the last entry was a folder: go into it first */
	uint32_t depth;
	char path[PACK_PATH_MAX + 1];
	struct level levels[WALK_DEPTH_MAX];
};

static int fail(struct err *e, int errnum, const char *path, const char *what)
{
	char q[QUOTE_MAX];

	return err_set(e, errnum == EACCES || errnum == EPERM ? ERR_DENIED : ERR_INVALID, errnum,
		       "%s: %s%s%s", quote(path[0] != '\0' ? path : ".", q), what,
		       what[0] != '\0' ? ": " : "", strerror(errnum));
}

static int read_ignore(struct walk *w, struct level *l, struct err *e)
{
	_cleanup_close_ int fd =
	    openat(dirfd(l->dir), ".gitignore", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	_cleanup_free_ char *text = NULL;
	struct stat st;
	size_t n = 0;
	int r;

	if (fd < 0) /* git does not follow a link here either */
		return errno == ENOENT || errno == ELOOP ? 0 : fail(e, errno, w->path, ".gitignore");
	if (fstat(fd, &st) < 0)
		return fail(e, errno, w->path, ".gitignore");
	if (!S_ISREG(st.st_mode))
		return 0;
	text = malloc(GITIGNORE_FILE_MAX + 1);
	if (text == NULL)
		return fail(e, ENOMEM, w->path, ".gitignore");
	for (;;) {
		ssize_t k = read(fd, text + n, GITIGNORE_FILE_MAX + 1 - n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return fail(e, errno, w->path, ".gitignore");
		n += (size_t)k;
		if (k == 0 || n > GITIGNORE_FILE_MAX)
			break;
	}
	r = gitignore_parse(text, n, &l->ignore);
	return r < 0 ? fail(e, -r, w->path, ".gitignore") : 0;
}

/* Enter a folder; takes fd. */
static int push(struct walk *w, int fd, struct err *e)
{
	struct level *l = &w->levels[w->depth];

	if (w->depth >= WALK_DEPTH_MAX) {
		(void)close(fd);
		return fail(e, ENAMETOOLONG, w->path, "folders nested too deeply");
	}
	*l = (struct level){.dir = fdopendir(fd), .path_len = strlen(w->path)};
	if (l->dir == NULL) {
		int r = fail(e, errno, w->path, "");

		(void)close(fd);
		return r;
	}
	w->depth++;
	return w->rules->gitignore ? read_ignore(w, l, e) : 0;
}

static void pop(struct walk *w)
{
	struct level *l = &w->levels[--w->depth];

	(void)closedir(l->dir);
	gitignore_free(l->ignore);
}

int walk_new(int fd, const struct walk_rules *rules, struct copy_warn *warn, struct walk **ret,
	     struct err *e)
{
	struct walk *w = calloc(1, sizeof(*w));
	int r;

	if (w == NULL) {
		(void)close(fd);
		return fail(e, ENOMEM, "", "");
	}
	w->rules = rules;
	w->warn = warn;
	r = push(w, fd, e);
	if (r < 0) {
		walk_free(w);
		return r;
	}
	*ret = w;
	return 0;
}

void walk_free(struct walk *w)
{
	if (w == NULL)
		return;
	while (w->depth > 0)
		pop(w);
	free(w);
}

bool walk_excluded(const struct walk_rules *rules, const char *path, const char *name, bool is_dir)
{
	for (uint32_t i = 0; i < rules->exclude_n; i++) {
		const char *pattern = rules->exclude[i];
		char dir_pattern[256];
		size_t n = strlen(pattern);

		if (n > 1 && n < sizeof(dir_pattern) && pattern[n - 1] == '/') {
			if (!is_dir)
				continue;
			memcpy(dir_pattern, pattern, n - 1);
			dir_pattern[n - 1] = '\0';
			pattern = dir_pattern;
		}
		if (fnmatch(pattern, path, 0) == 0 || fnmatch(pattern, name, 0) == 0)
			return true;
	}
	return false;
}

static bool ignored(const struct walk *w, bool is_dir)
{
	for (uint32_t i = w->depth; i > 0; i--) {
		const struct level *l = &w->levels[i - 1];
		enum gitignore_answer a;

		if (l->ignore == NULL)
			continue;
		a = gitignore_match(l->ignore, w->path + l->path_len + (l->path_len > 0), is_dir);
		if (a != GITIGNORE_SILENT)
			return a == GITIGNORE_IGNORE;
	}
	return false;
}

/* Set w->path to the entry `name` of the current folder. */
static int set_path(struct walk *w, const char *name, struct err *e)
{
	size_t at = w->levels[w->depth - 1].path_len, n = strlen(name);

	w->path[at] = '\0';
	if (n + 1 > PACK_PATH_MAX - at)
		return fail(e, ENAMETOOLONG, w->path, "");
	if (at > 0)
		w->path[at++] = '/';
	memcpy(w->path + at, name, n + 1);
	return 0;
}

/* 1: to be copied, 0: left out, -errno. */
static int look(struct walk *w, const char *name, struct walk_entry *ret, struct err *e)
{
	int dfd = dirfd(w->levels[w->depth - 1].dir);
	ssize_t n;

	if (fstatat(dfd, name, &ret->st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno != ENOENT)
			return fail(e, errno, w->path, "");
		return 0; /* it went away after it was listed */
	}
	if (walk_excluded(w->rules, w->path, name, S_ISDIR(ret->st.st_mode)) || ignored(w, S_ISDIR(ret->st.st_mode)))
		return 0;
	if (S_ISDIR(ret->st.st_mode)) {
		ret->type = PACK_DIR;
		return 1;
	}
	if (S_ISREG(ret->st.st_mode)) {
		ret->type = PACK_FILE;
		return 1;
	}
	if (!S_ISLNK(ret->st.st_mode)) {
		copy_warn(w->warn, w->path, "left out: no file, folder or link");
		return 0;
	}
	n = readlinkat(dfd, name, ret->target, sizeof(ret->target));
	if (n < 0)
		return fail(e, errno, w->path, "");
	if ((size_t)n >= sizeof(ret->target)) {
		copy_warn(w->warn, w->path, "left out: the link is too long");
		return 0;
	}
	ret->target[n] = '\0';
	if (!pack_link_ok(w->path, ret->target)) {
		copy_warn(w->warn, w->path, "left out: the link leads out of the folder");
		return 0;
	}
	ret->type = PACK_LINK;
	return 1;
}

static int enter(struct walk *w, struct err *e)
{
	struct level *l = &w->levels[w->depth - 1];
	const char *name = w->path + l->path_len + (l->path_len > 0);
	int fd = openat(dirfd(l->dir), name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	w->descend = false;
	return fd < 0 ? fail(e, errno, w->path, "") : push(w, fd, e);
}

int walk_next(struct walk *w, struct walk_entry *ret, struct err *e)
{
	if (w->descend) {
		int r = enter(w, e);

		if (r < 0)
			return r;
	}
	while (w->depth > 0) {
		struct level *l = &w->levels[w->depth - 1];
		struct dirent *d;
		int r;

		errno = 0;
		d = readdir(l->dir);
		if (d == NULL && errno != 0)
			return fail(e, errno, w->path, "");
		if (d == NULL) {
			pop(w);
			continue;
		}
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		r = set_path(w, d->d_name, e);
		if (r == 0)
			r = look(w, d->d_name, ret, e);
		if (r < 0)
			return r;
		if (r > 0) {
			w->descend = ret->type == PACK_DIR;
			ret->path = w->path;
			ret->name = w->path + l->path_len + (l->path_len > 0);
			ret->dirfd = dirfd(l->dir);
			return 1;
		}
	}
	return 0;
}

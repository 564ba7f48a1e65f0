#pragma once
/* A scratch folder, which becomes the working folder; small helpers to fill and look at it. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct tree {
	char root[64];
	char at[PATH_MAX];
};

static inline bool tree_new(struct tree *t)
{
	(void)umask(022);
	(void)snprintf(t->root, sizeof(t->root), "/tmp/brig-test-XXXXXX");
	return mkdtemp(t->root) != NULL && chdir(t->root) == 0;
}
static inline int tree_rm(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}
static inline void tree_done(struct tree *t)
{
	if (chdir("/") == 0)
		(void)nftw(t->root, tree_rm, 16, FTW_DEPTH | FTW_PHYS);
}
static inline const char *tree_at(struct tree *t, const char *path)
{
	(void)snprintf(t->at, sizeof(t->at), "%s/%s", t->root, path);
	return t->at;
}
static inline void tree_parents(const char *path)
{
	char p[PATH_MAX];

	(void)snprintf(p, sizeof(p), "%s", path);
	for (char *s = p; (s = strchr(s, '/')) != NULL; s++) {
		*s = '\0';
		if (mkdir(p, 0755) < 0 && errno != EEXIST)
			abort();
		*s = '/';
	}
}
static inline void tree_dir(struct tree *t, const char *path)
{
	(void)t;
	tree_parents(path);
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		abort();
}
static inline void tree_file(struct tree *t, const char *path, const char *text, mode_t mode)
{
	int fd;

	(void)t;
	tree_parents(path);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) || close(fd) < 0)
		abort();
}
static inline void tree_link(struct tree *t, const char *path, const char *target)
{
	(void)t;
	tree_parents(path);
	if (symlink(target, path) < 0)
		abort();
}
/* Does the file (links followed) hold exactly text? */
static inline bool tree_is(struct tree *t, const char *path, const char *text)
{
	size_t n = strlen(text);
	char *got = malloc(n + 2);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool same;

	(void)t;
	same = fd >= 0 && got != NULL && read(fd, got, n + 2) == (ssize_t)n &&
	       memcmp(got, text, n) == 0;
	if (fd >= 0)
		(void)close(fd);
	free(got);
	return same;
}

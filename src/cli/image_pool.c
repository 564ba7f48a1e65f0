#include "cli/image_apt_priv.h"
/*
 * Where a build's packages lie: see struct apt_folders. The pool is by digest, and what is taken from it is hashed
 * first, so a damaged disk or an edited file costs a download and nothing else. Files change by link(2) and
 * unlink(2) only: builders may be killed at any time, and several may run at once.
 */
#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "cmd/say.h"
#include "sys/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { DEBS_MAX = 20000, KEEP_SECONDS = 30 * 24 * 3600 };

static int no_memory(struct err *e) { return err_no_memory(e); }

/* mkdir -p of a path of our own making. */
static int make_folders(const char *path, struct err *e)
{
	_cleanup_free_ char *p = strdup(path);

	if (p == NULL)
		return no_memory(e);
	for (char *s = p + 1;; s++) {
		char c = *s;

		if (c != '/' && c != '\0')
			continue;
		*s = '\0';
		if (mkdir(p, 0755) < 0 && errno != EEXIST)
			return err_set(e, ERR_DENIED, errno, "%s: %s", p, strerror(errno));
		*s = c;
		if (c == '\0')
			return 0;
	}
}

static int make_below(const char *dir, const char *name, struct err *e)
{
	_cleanup_free_ char *p = NULL;

	return asprintf(&p, "%s/%s", dir, name) < 0 ? no_memory(e) : make_folders(p, e);
}

static int cache_folder(char **ret, struct err *e)
{
	const char *own = getenv("BRIG_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	int n;

	if (own != NULL && own[0] == '/')
		n = asprintf(ret, "%s/recipes", own);
	else if (xdg != NULL && xdg[0] == '/')
		n = asprintf(ret, "%s/brig/recipes", xdg);
	else
		n = asprintf(ret, "%s/.cache/brig/recipes", home != NULL && home[0] == '/' ? home : "/root");
	return n < 0 ? no_memory(e) : 0;
}

/* What killed builders left: folders that nobody holds. */
static void sweep(int cache)
{
	int fd = openat(cache, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *ent;

	while (d != NULL && (ent = readdir(d)) != NULL) {
		_cleanup_close_ int one = -1;

		if (strncmp(ent->d_name, "get-", 4) != 0)
			continue;
		one = openat(fd, ent->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (one >= 0 && flock(one, LOCK_EX | LOCK_NB) == 0)
			(void)!tree_remove(fd, ent->d_name); /* the next build tries again */
	}
	if (d != NULL)
		(void)closedir(d);
	else if (fd >= 0)
		(void)close(fd);
}

/* A folder of this build alone. The cache's lock keeps a sweep from the moment before it is held. */
static int make_get(struct apt_folders *d, struct err *e)
{
	_cleanup_close_ int cache = open(d->cache, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (cache < 0 || fstat(cache, &st) < 0 || flock(cache, LOCK_EX) < 0)
		return err_set(e, ERR_DENIED, errno, "%s: %s", d->cache, strerror(errno));
	if (st.st_uid != geteuid() || (st.st_mode & 022) != 0)
		return err_set(e, ERR_DENIED, EACCES, "%s: others can change it: BRIG_CACHE names another folder", d->cache);
	sweep(cache);
	if (asprintf(&d->get, "%s/get-XXXXXX", d->cache) < 0)
		return no_memory(e);
	if (mkdtemp(d->get) == NULL)
		return err_set(e, ERR_DENIED, errno, "%s: %s", d->get, strerror(errno));
	d->get_fd = open(d->get, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d->get_fd < 0 || flock(d->get_fd, LOCK_EX | LOCK_NB) < 0)
		return err_set(e, ERR_DENIED, errno, "%s: %s", d->get, strerror(errno));
	if (asprintf(&d->debs, "%s/debs", d->get) < 0)
		return no_memory(e);
	return make_below(d->debs, "partial", e);
}

static int take_lock(struct apt_folders *d, bool show, struct err *e)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "%s/lock", d->state) < 0)
		return no_memory(e);
	d->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (d->lock_fd < 0)
		return err_set(e, ERR_DENIED, errno, "%s: %s", path, strerror(errno));
	if (flock(d->lock_fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (show)
		say_status("waiting for another build's downloads", false);
	while (flock(d->lock_fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_set(e, ERR_DENIED, errno, "%s: %s", path, strerror(errno));
	return 0;
}

int apt_folders_make(const char *sources, bool show, struct apt_folders *d, struct err *e)
{
	uint8_t sum[crypto_hash_sha256_BYTES];
	char name[17];
	int r = cache_folder(&d->cache, e);

	(void)crypto_hash_sha256(sum, (const uint8_t *)sources, strlen(sources));
	(void)sodium_bin2hex(name, sizeof(name), sum, 8);
	if (r == 0 && asprintf(&d->state, "%s/apt-%s", d->cache, name) < 0)
		r = no_memory(e);
	if (r == 0)
		r = make_below(d->state, "state/lists/partial", e);
	if (r == 0)
		r = make_below(d->cache, "pool", e);
	if (r == 0)
		r = make_get(d, e);
	return r == 0 ? take_lock(d, show, e) : r;
}

void apt_folders_done(struct apt_folders *d, bool keep)
{
	if (!keep && d->get != NULL)
		(void)!tree_remove(AT_FDCWD, d->get);
	if (d->lock_fd >= 0)
		(void)close(d->lock_fd);
	if (d->get_fd >= 0)
		(void)close(d->get_fd);
	free(d->cache);
	free(d->state);
	free(d->get);
	free(d->debs);
}

void image_debs_done(struct image_debs *d)
{
	if (d->dir != NULL) {
		*strrchr(d->dir, '/') = '\0'; /* of .../get-random/debs */
		(void)!tree_remove(AT_FDCWD, d->dir);
	}
	if (d->lock_fd >= 0)
		(void)close(d->lock_fd);
	free(d->dir);
	*d = IMAGE_DEBS_INIT;
}

int apt_list_read(const char *text, struct apt_list *l, struct err *e)
{
	const char *line = text;
	char q[QUOTE_MAX];

	for (; line != NULL && *line != '\0'; line = strchr(line, '\n') != NULL ? strchr(line, '\n') + 1 : NULL) {
		struct apt_deb deb = {.sum = ""}, *grown;
		size_t n;

		if (line[0] != '\'')
			continue;
		if (sscanf(line, "'%*[^']' %255s %*u SHA256:%64[0-9a-f]", deb.file, deb.sum) != 2 || strlen(deb.sum) != 64)
			return err_set(e, ERR_INVALID, EINVAL, "apt-get: no SHA-256 in %s",
				       quote_n(line, strcspn(line, "\n"), q));
		n = strlen(deb.file);
		if (strchr(deb.file, '/') != NULL || deb.file[0] == '.' || n < 5 || strcmp(deb.file + n - 4, ".deb") != 0)
			return err_set(e, ERR_INVALID, EINVAL, "apt-get: %s is no package's file", quote(deb.file, q));
		if (l->n == DEBS_MAX)
			return err_set(e, ERR_INVALID, E2BIG, "more than %d packages", DEBS_MAX);
		grown = reallocarray(l->v, l->n + 1, sizeof(*l->v));
		if (grown == NULL)
			return no_memory(e);
		l->v = grown;
		l->v[l->n++] = deb;
	}
	return l->n > 0 ? 0 : err_set(e, ERR_INVALID, EINVAL, "apt-get would download nothing");
}

void apt_list_done(struct apt_list *l)
{
	free(l->v);
	*l = (struct apt_list){.v = NULL};
}

/* 0 when the file has this digest, -EBADMSG when not. */
static int check_sum(const char *path, const char *want)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	static uint8_t block[256 * 1024];
	uint8_t sum[crypto_hash_sha256_BYTES];
	char hex[2 * sizeof(sum) + 1];
	crypto_hash_sha256_state h;
	ssize_t n;

	if (fd < 0)
		return -errno;
	(void)crypto_hash_sha256_init(&h);
	while ((n = read(fd, block, sizeof(block))) > 0)
		(void)crypto_hash_sha256_update(&h, block, (unsigned long long)n);
	if (n < 0)
		return -errno;
	(void)crypto_hash_sha256_final(&h, sum);
	(void)sodium_bin2hex(hex, sizeof(hex), sum, sizeof(sum));
	return strcmp(hex, want) == 0 ? 0 : -EBADMSG;
}

static int paths(const struct apt_folders *d, const struct apt_deb *deb, char **here, char **pool, struct err *e)
{
	if (asprintf(here, "%s/%s", d->debs, deb->file) < 0 || asprintf(pool, "%s/pool/%s.deb", d->cache, deb->sum) < 0)
		return no_memory(e);
	return 0;
}

int apt_pool_take(const struct apt_folders *d, struct apt_list *l, unsigned int *missing, struct err *e)
{
	*missing = 0;
	for (unsigned int i = 0; i < l->n; i++) {
		_cleanup_free_ char *here = NULL, *pool = NULL;
		struct apt_deb *deb = &l->v[i];
		int r = paths(d, deb, &here, &pool, e);

		if (r < 0)
			return r;
		deb->here = link(pool, here) == 0;
		if (deb->here && check_sum(here, deb->sum) < 0) {
			(void)unlink(here);
			(void)unlink(pool);
			deb->here = false;
		}
		*missing += !deb->here;
	}
	return 0;
}

static void drop_old(const struct apt_folders *d)
{
	_cleanup_free_ char *pool = NULL;
	int fd = asprintf(&pool, "%s/pool", d->cache) < 0 ? -1 : open(pool, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *ent;
	struct stat st;

	while (dir != NULL && (ent = readdir(dir)) != NULL)
		if (fstatat(fd, ent->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
		    st.st_mtime < time(NULL) - KEEP_SECONDS)
			(void)unlinkat(fd, ent->d_name, 0);
	if (dir != NULL)
		(void)closedir(dir);
	else if (fd >= 0)
		(void)close(fd);
}

int apt_pool_keep(const struct apt_folders *d, const struct apt_list *l, struct err *e)
{
	_cleanup_free_ char *partial = NULL, *lock = NULL;
	char q[QUOTE_MAX];

	for (unsigned int i = 0; i < l->n; i++) {
		_cleanup_free_ char *here = NULL, *pool = NULL;
		int r = paths(d, &l->v[i], &here, &pool, e);

		if (r == 0 && !l->v[i].here && (r = check_sum(here, l->v[i].sum)) < 0)
			r = err_set(e, ERR_INVALID, -r, "%s: %s", quote(l->v[i].file, q),
				    r == -EBADMSG ? "not what the archive signed" : strerror(-r));
		if (r < 0)
			return r;
		(void)utimensat(AT_FDCWD, here, NULL, AT_SYMLINK_NOFOLLOW);
		if (!l->v[i].here && link(here, pool) < 0 && errno != EEXIST)
			return err_set(e, ERR_DENIED, errno, "%s: %s", pool, strerror(errno));
	}
	if (asprintf(&partial, "%s/partial", d->debs) < 0 || asprintf(&lock, "%s/lock", d->debs) < 0)
		return no_memory(e);
	(void)unlink(lock);
	(void)rmdir(partial);
	drop_old(d);
	return 0;
}

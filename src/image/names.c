#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "image/store_priv.h"
#include "sys/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Names point at digests: refs/NAME/TAG holds one, with the slashes of NAME as '%', which no name
 * contains. A name is written under another one and renamed, so it always is the old or the new one.
 */

static bool name_char(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

static bool good_name(const char *s, size_t n)
{
	bool sep = true; /* no separator first, last, or twice */

	for (size_t i = 0; i < n; i++) {
		if (name_char(s[i]))
			sep = false;
		else if (sep || strchr("._-/", s[i]) == NULL || s[i] == '\0')
			return false;
		else
			sep = true;
	}
	return n > 0 && n <= IMAGE_NAME_MAX && !sep;
}

static bool good_tag(const char *s, size_t n)
{
	if (n == 0 || n > IMAGE_NAME_MAX || s[0] == '.' || s[0] == '-')
		return false;
	for (size_t i = 0; i < n; i++)
		if (!name_char(s[i]) && !(s[i] >= 'A' && s[i] <= 'Z') && s[i] != '.' && s[i] != '_' && s[i] != '-')
			return false;
	return true;
}

int image_parse_name(const char *text, char name[IMAGE_NAME_MAX + 1], char tag[IMAGE_NAME_MAX + 1], struct err *e)
{
	const char *colon = strchr(text, ':');
	size_t n = colon != NULL ? (size_t)(colon - text) : strlen(text);
	const char *t = colon != NULL ? colon + 1 : "latest";
	char q[QUOTE_MAX];

	if (!good_name(text, n) || !good_tag(t, strlen(t)) || strncmp(text, "sha256:", 7) == 0 ||
	    (n == 4 && memcmp(text, "host", 4) == 0))
		return err_set(e, ERR_INVALID, EINVAL,
			       "image name %s: it is NAME[:TAG], a name of a-z, 0-9 and single . _ - / between, and not "
			       "'host'",
			       quote(text, q));
	memcpy(name, text, n);
	name[n] = '\0';
	(void)snprintf(tag, IMAGE_NAME_MAX + 1, "%s", t);
	return 0;
}

bool image_is_ref(const char *text)
{
	return strcmp(text, "host") != 0 && text[0] != '/' && strncmp(text, "./", 2) != 0 &&
	       strncmp(text, "../", 3) != 0 && strcmp(text, ".") != 0 && strcmp(text, "..") != 0;
}

struct ref_path {
	char dir[IMAGE_NAME_MAX + 8], file[2 * IMAGE_NAME_MAX + 16];
};

static struct ref_path ref_path(const char *name, const char *tag)
{
	struct ref_path p;

	(void)snprintf(p.dir, sizeof(p.dir), "refs/%s", name);
	for (char *c = p.dir + 5; *c != '\0'; c++)
		if (*c == '/')
			*c = '%';
	(void)snprintf(p.file, sizeof(p.file), "%s/%s", p.dir, tag);
	return p;
}

static int read_ref(int store_fd, const char *file, char digest[IMAGE_DIGEST_LEN + 1])
{
	char text[IMAGE_DIGEST_LEN + 16];
	ssize_t n = file_get(store_fd, file, text, sizeof(text));

	if (n < 0)
		return (int)n;
	if (n != IMAGE_DIGEST_LEN + 1 || text[IMAGE_DIGEST_LEN] != '\n' || !store_digest_ok(text, IMAGE_DIGEST_LEN))
		return -EINVAL;
	memcpy(digest, text, IMAGE_DIGEST_LEN);
	digest[IMAGE_DIGEST_LEN] = '\0';
	return 0;
}

/* With the store's lock held. */
static int write_ref(int store_fd, const char *digest, const struct ref_path *p)
{
	_cleanup_close_ int fd = -1;
	char text[IMAGE_DIGEST_LEN + 2];
	int n = snprintf(text, sizeof(text), "%s\n", digest), r;

	if (mkdirat(store_fd, p->dir, 0700) < 0 && errno != EEXIST)
		return -errno;
	(void)unlinkat(store_fd, "refs/.new", 0);
	fd = openat(store_fd, "refs/.new", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : file_write_all(fd, text, (size_t)n);
	if (r == 0 && (fsync(fd) < 0 || renameat(store_fd, "refs/.new", store_fd, p->file) < 0))
		r = -errno;
	return r;
}

int image_tag(const char *digest, const char *name, struct err *e)
{
	char base[IMAGE_NAME_MAX + 1], tag[IMAGE_NAME_MAX + 1], place[IMAGE_DIGEST_LEN + 16];
	_cleanup_close_ int store = -1, lock = -1;
	struct ref_path p;
	int r = image_parse_name(name, base, tag, e);

	if (r < 0)
		return r;
	if ((store = store_open(e)) < 0)
		return store;
	if ((lock = store_lock(store, e)) < 0)
		return lock;
	p = ref_path(base, tag);
	(void)snprintf(place, sizeof(place), "sha256/%s", digest);
	if (faccessat(store, place, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "no image sha256:%.12s in the store", digest);
	r = write_ref(store, digest, &p);
	return r < 0 ? err_set(e, ERR_INTERNAL, -r, "image store: writing '%s': %s", p.file, strerror(-r)) : 0;
}

/* ---- finding ---- */

/* The one digest that begins with the given digits. */
static int by_prefix(int store, const char *hex, char digest[IMAGE_DIGEST_LEN + 1])
{
	int fd = openat(store, "sha256", O_RDONLY | O_DIRECTORY | O_CLOEXEC), found = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;

	if (d == NULL)
		return -ENOENT;
	while ((ent = readdir(d)) != NULL)
		if (strlen(ent->d_name) == IMAGE_DIGEST_LEN && strncmp(ent->d_name, hex, strlen(hex)) == 0) {
			(void)snprintf(digest, IMAGE_DIGEST_LEN + 1, "%s", ent->d_name);
			found++;
		}
	(void)closedir(d);
	return found == 1 ? 0 : found == 0 ? -ENOENT : -EEXIST;
}

static int digest_of(int store, const char *ref, char digest[IMAGE_DIGEST_LEN + 1], struct err *e)
{
	const char *hex = strncmp(ref, "sha256:", 7) == 0 ? ref + 7 : ref;
	char base[IMAGE_NAME_MAX + 1], tag[IMAGE_NAME_MAX + 1], q[QUOTE_MAX];
	size_t n = strlen(hex);
	int r = -ENOENT;

	if (n >= 12 && n <= IMAGE_DIGEST_LEN && store_digest_ok(hex, n))
		r = by_prefix(store, hex, digest);
	if (r == -ENOENT && hex == ref) {
		struct ref_path p;

		r = image_parse_name(ref, base, tag, e);
		if (r < 0)
			return r;
		p = ref_path(base, tag);
		r = read_ref(store, p.file, digest);
	}
	if (r == -EEXIST)
		return err_set(e, ERR_CONFLICT, EEXIST, "image %s: several begin like this", quote(ref, q));
	if (r == -EINVAL)
		return err_set(e, ERR_INVALID, EINVAL, "image %s: its name in the store is damaged: tag it again",
			       quote(ref, q));
	if (r < 0)
		return err_set(e, ERR_NOT_FOUND, -r,
			       "no image %s in the store (see 'brig image list'; a folder is given as ./NAME)",
			       quote(ref, q));
	return 0;
}

int image_resolve(const char *ref, struct image_found *ret, struct err *e)
{
	_cleanup_close_ int store = store_open(e), fd = -1;
	char at[IMAGE_DIGEST_LEN + 16], path[IMAGE_PATH_MAX], q[QUOTE_MAX];
	struct stat st;
	int r = store < 0 ? store : store_path(path, e);

	if (r == 0)
		r = digest_of(store, ref, ret->digest, e);
	if (r < 0)
		return r;
	(void)snprintf(at, sizeof(at), "sha256/%s", ret->digest);
	fd = openat(store, at, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	/* a remover holds the lock alone; when it is done the folder has no link any more */
	if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0 || fstat(fd, &st) < 0 || st.st_nlink == 0)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "image %s is not in the store any more", quote(ref, q));
	(void)snprintf(ret->dir, sizeof(ret->dir), "%.420s/%s", path, at);
	(void)snprintf(ret->tree, sizeof(ret->tree), "%.500s/tree", ret->dir);
	ret->lock_fd = steal_fd(&fd);
	return 0;
}

void image_found_done(struct image_found *f)
{
	if (f->lock_fd >= 0)
		(void)close(f->lock_fd);
	f->lock_fd = -1;
}

/* ---- listing and removing ---- */

/* fn for every file refs/NAME/TAG; it returns false to stop. */
typedef bool (*ref_fn)(void *arg, const char *file, const char *name, const char *digest);

static bool each_tag(int store, const char *dir, ref_fn fn, void *arg)
{
	char rel[IMAGE_NAME_MAX + 8], file[2 * IMAGE_NAME_MAX + 16], name[2 * IMAGE_NAME_MAX + 16];
	char digest[IMAGE_DIGEST_LEN + 1];
	struct dirent *ent;
	bool more = true;
	int fd;
	DIR *d;

	(void)snprintf(rel, sizeof(rel), "refs/%.128s", dir);
	fd = openat(store, rel, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	d = fd < 0 ? NULL : fdopendir(fd);
	while (d != NULL && more && (ent = readdir(d)) != NULL) {
		if (!good_tag(ent->d_name, strlen(ent->d_name)))
			continue;
		(void)snprintf(file, sizeof(file), "%s/%.128s", rel, ent->d_name);
		(void)snprintf(name, sizeof(name), "%.128s:%.128s", dir, ent->d_name);
		for (char *c = name; *c != ':'; c++)
			if (*c == '%')
				*c = '/';
		if (read_ref(store, file, digest) == 0)
			more = fn(arg, file, name, digest);
	}
	if (d != NULL)
		(void)closedir(d);
	return more;
}

static void each_ref(int store, ref_fn fn, void *arg)
{
	int fd = openat(store, "refs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;
	bool more = true;

	while (d != NULL && more && (ent = readdir(d)) != NULL)
		if (ent->d_name[0] != '.')
			more = each_tag(store, ent->d_name, fn, arg);
	if (d != NULL)
		(void)closedir(d);
}

struct lister {
	image_each fn;
	void *arg;
	const char *digest; /* has_name: the one looked for */
	bool found, stopped;
};

static bool list_named(void *arg, const char *file, const char *name, const char *digest)
{
	struct lister *l = arg;

	(void)file;
	l->stopped = !l->fn(l->arg, digest, name);
	return !l->stopped;
}

static bool is_named(void *arg, const char *file, const char *name, const char *digest)
{
	struct lister *l = arg;

	(void)file;
	(void)name;
	l->found = strcmp(l->digest, digest) == 0;
	return !l->found;
}

static bool has_name(int store, const char *digest)
{
	struct lister l = {.digest = digest};

	each_ref(store, is_named, &l);
	return l.found;
}

typedef int (*image_fn)(void *arg, int store, const char *digest);

/* fn for every image without a name; it returns < 0 to stop. */
static int each_nameless(int store, image_fn fn, void *arg)
{
	int fd = openat(store, "sha256", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;

	while (d != NULL && r >= 0 && (ent = readdir(d)) != NULL)
		if (strlen(ent->d_name) == IMAGE_DIGEST_LEN && store_digest_ok(ent->d_name, IMAGE_DIGEST_LEN) &&
		    !has_name(store, ent->d_name))
			r = fn(arg, store, ent->d_name);
	if (d != NULL)
		(void)closedir(d);
	return r;
}

static int list_nameless(void *arg, int store, const char *digest)
{
	struct lister *l = arg;

	(void)store;
	return l->fn(l->arg, digest, NULL) ? 0 : -1;
}

int image_list(image_each fn, void *arg, struct err *e)
{
	_cleanup_close_ int store = store_open(e);
	struct lister l = {.fn = fn, .arg = arg};

	if (store < 0)
		return store;
	each_ref(store, list_named, &l);
	if (!l.stopped)
		(void)each_nameless(store, list_nameless, &l);
	return 0;
}

/* With the store's lock held. -EBUSY while something holds the image. Out of sight first, then removed. */
static int remove_image(int store, const char *digest)
{
	char at[IMAGE_DIGEST_LEN + 16], away[IMAGE_DIGEST_LEN + 16];
	_cleanup_close_ int fd = -1;

	(void)snprintf(at, sizeof(at), "sha256/%s", digest);
	(void)snprintf(away, sizeof(away), "tmp/gone-%.16s", digest);
	fd = openat(store, at, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -EBUSY;
	(void)!tree_remove(store, away);
	if (renameat(store, at, store, away) < 0)
		return -errno;
	return tree_remove(store, away);
}

struct untag {
	int store;
	const char *digest, *name; /* name NULL: every name of the digest */
	bool found;
};

static bool untag(void *arg, const char *file, const char *name, const char *digest)
{
	struct untag *u = arg;

	if (strcmp(u->digest, digest) == 0 && (u->name == NULL || strcmp(u->name, name) == 0)) {
		char *slash, dir[2 * IMAGE_NAME_MAX + 16];

		u->found = unlinkat(u->store, file, 0) == 0;
		(void)snprintf(dir, sizeof(dir), "%s", file);
		if ((slash = strrchr(dir, '/')) != NULL) {
			*slash = '\0';
			(void)unlinkat(u->store, dir, AT_REMOVEDIR); /* the last tag of the name */
		}
	}
	return true;
}

/* A second name keeps an image; something that runs on it keeps the name too. 0, or -EBUSY with e. */
static int check_unused(int store, const char *digest, const char *ref, struct err *e)
{
	char q[QUOTE_MAX], who[48] = "";
	pid_t pid;

	char at[IMAGE_DIGEST_LEN + 16];
	_cleanup_close_ int fd = -1;

	(void)snprintf(at, sizeof(at), "sha256/%s", digest);
	fd = openat(store, at, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	pid = store_holder(fd);
	if (pid > 0)
		(void)snprintf(who, sizeof(who), " (process %d)", (int)pid);
	return err_set(e, ERR_CONFLICT, EBUSY, "image %s: a sandbox runs on it%s", quote(ref, q), who);
}

struct counter {
	const char *digest;
	uint32_t n;
};

static bool count_names(void *arg, const char *file, const char *name, const char *digest)
{
	struct counter *c = arg;

	(void)file;
	(void)name;
	c->n += strcmp(c->digest, digest) == 0;
	return true;
}

int image_remove(const char *ref, struct err *e)
{
	_cleanup_close_ int store = store_open(e), lock = -1;
	char digest[IMAGE_DIGEST_LEN + 1], base[IMAGE_NAME_MAX + 1], tag[IMAGE_NAME_MAX + 1];
	char name[2 * IMAGE_NAME_MAX + 4], q[QUOTE_MAX];
	struct untag u = {.store = store, .digest = digest};
	struct counter c = {.digest = digest};
	int r = store < 0 ? store : (lock = store_lock(store, e)) < 0 ? lock : digest_of(store, ref, digest, e);

	if (r < 0)
		return r;
	each_ref(store, count_names, &c);
	if (strncmp(ref, "sha256:", 7) != 0 && image_parse_name(ref, base, tag, NULL) == 0) {
		char by_name[IMAGE_DIGEST_LEN + 1];
		struct ref_path p = ref_path(base, tag);

		(void)snprintf(name, sizeof(name), "%s:%s", base, tag);
		if (read_ref(store, p.file, by_name) == 0)
			u.name = name;
	}
	if ((u.name == NULL || c.n <= 1) && (r = check_unused(store, digest, ref, e)) < 0)
		return r;
	each_ref(store, untag, &u);
	if (u.name == NULL || c.n <= 1)
		r = remove_image(store, digest);
	return r < 0 ? err_set(e, ERR_INTERNAL, -r, "image %s: removing it: %s", quote(ref, q), strerror(-r)) : 0;
}

static int gc_one(void *arg, int store, const char *digest)
{
	int r = remove_image(store, digest);

	if (r == 0)
		++*(int *)arg;
	return r == -EBUSY || r == 0 ? 0 : r;
}

int image_gc(struct err *e)
{
	_cleanup_close_ int store = store_open(e), lock = -1;
	int n = 0, r;

	if (store < 0)
		return store;
	store_sweep(store);
	if ((lock = store_lock(store, e)) < 0)
		return lock;
	r = each_nameless(store, gc_one, &n);
	return r < 0 ? err_set(e, ERR_INTERNAL, -r, "image store: removing an image: %s", strerror(-r)) : n;
}

int image_verify(const struct image_found *f, struct err *e)
{
	char digest[IMAGE_DIGEST_LEN + 1];
	_cleanup_close_ int fd = openat(f->lock_fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	int r = fd < 0 ? err_set(e, ERR_INVALID, errno, "image %.12s: it has no tree", f->digest)
		       : tree_digest(fd, digest, e);

	if (r == 0 && strcmp(digest, f->digest) != 0)
		return err_set(e, ERR_INVALID, EINVAL, "image %.12s was changed: its files make sha256:%.12s", f->digest,
			       digest);
	return r;
}

int image_put_file(const struct image_found *f, int fd, const char *name, struct err *e)
{
	_cleanup_close_ int store = store_open(e), lock = -1, to = -1;
	char buf[65536];
	ssize_t n;
	int r = 0;

	if (store < 0)
		return store;
	if ((lock = store_lock(store, e)) < 0)
		return lock;
	(void)unlinkat(f->lock_fd, ".new", 0);
	to = openat(f->lock_fd, ".new", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (to < 0 || lseek(fd, 0, SEEK_SET) < 0)
		r = -errno;
	while (r == 0 && (n = read(fd, buf, sizeof(buf))) != 0)
		r = n < 0 ? -errno : file_write_all(to, buf, (size_t)n);
	if (r == 0 && (fsync(to) < 0 || renameat(f->lock_fd, ".new", f->lock_fd, name) < 0))
		r = -errno;
	if (r < 0)
		(void)unlinkat(f->lock_fd, ".new", 0);
	return r < 0 ? err_set(e, ERR_INTERNAL, -r, "image %.12s: keeping %s: %s", f->digest, name, strerror(-r)) : 0;
}

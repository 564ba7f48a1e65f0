#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "image/names_priv.h"
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
	char dir[IMAGE_NAME_MAX + 8], file[NAMES_FILE_MAX];
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

int names_digest(int store, const char *ref, char digest[IMAGE_DIGEST_LEN + 1], char ret_file[NAMES_FILE_MAX],
		 struct err *e)
{
	const char *hex = strncmp(ref, "sha256:", 7) == 0 ? ref + 7 : ref;
	char base[IMAGE_NAME_MAX + 1], tag[IMAGE_NAME_MAX + 1], q[QUOTE_MAX];
	size_t n = strlen(hex);
	int r = -ENOENT;

	ret_file[0] = '\0';
	if (n >= 12 && n <= IMAGE_DIGEST_LEN && store_digest_ok(hex, n))
		r = by_prefix(store, hex, digest);
	if (r == -ENOENT && hex == ref) {
		struct ref_path p;

		r = image_parse_name(ref, base, tag, e);
		if (r < 0)
			return r;
		p = ref_path(base, tag);
		memcpy(ret_file, p.file, sizeof(p.file));
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
	char at[IMAGE_DIGEST_LEN + 16], path[IMAGE_PATH_MAX], file[NAMES_FILE_MAX], q[QUOTE_MAX];
	struct stat held, there;
	int r = store < 0 ? store : store_path(path, e);

	if (r == 0)
		r = names_digest(store, ref, ret->digest, file, e);
	if (r < 0)
		return r;
	(void)snprintf(at, sizeof(at), "sha256/%s", ret->digest);
	fd = openat(store, at, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	/* a remover holds the lock alone, and has moved the folder away before it lets go */
	if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0 || fstat(fd, &held) < 0 ||
	    fstatat(store, at, &there, AT_SYMLINK_NOFOLLOW) < 0 || held.st_ino != there.st_ino)
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

/* ---- all of them ---- */

static bool each_tag(int store, const char *dir, names_fn fn, void *arg)
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

void names_each(int store, names_fn fn, void *arg)
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

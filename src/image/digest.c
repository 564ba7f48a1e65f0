#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "image/contents.h"
#include "image/store_priv.h"
#include "sys/ids.h"
#include "sys/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * The digest of a tree, whose names and contents are hostile (sys/tree.h): SHA-256 over one record for each entry, in
 * depth-first order, the names of a folder sorted by their bytes; docs/images.md has the form.
 */

struct digest {
	crypto_hash_sha256_state all;
	struct contents *known; /* what is not read again */
	bool owners; /* the tree has the image's owners; else everything counts as root's */
	uint8_t *buf;
	char path[4200]; /* of the folder being read, with a closing slash; "" for the root */
	struct err *e;
};
enum { DIGEST_BUF = 64 * 1024 };

static int failed(struct digest *d, int r, const char *name)
{
	char q[QUOTE_MAX], path[4500];

	(void)snprintf(path, sizeof(path), "%s%s", d->path, name);
	return err_set(d->e, ERR_INTERNAL, -r, "image: reading %s: %s", quote(path, q),
		       strerror(-r));
}

static int hash_file(struct digest *d, int dirfd, const char *name, uint8_t sum[CONTENTS_SUM])
{
	_cleanup_close_ int fd =
	    openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	crypto_hash_sha256_state h;
	struct stat st;
	ssize_t n;

	/* an ordinary user's file may forbid its owner to read it */
	if (fd < 0 && errno == EACCES && fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    fchmodat(dirfd, name, 0400, 0) == 0) {
		fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
		if (fchmodat(dirfd, name, st.st_mode & 07777, 0) < 0)
			return -errno;
	}
	if (fd < 0)
		return -errno;
	(void)crypto_hash_sha256_init(&h);
	while ((n = read(fd, d->buf, DIGEST_BUF)) > 0)
		(void)crypto_hash_sha256_update(&h, d->buf, (size_t)n);
	if (n < 0)
		return -errno;
	(void)crypto_hash_sha256_final(&h, sum);
	return 0;
}

/* "TYPE MODE UID GID SIZE MTIME CONTENT PATHLEN:PATH TARGETLEN:TARGET\n" */
static void record(struct digest *d, char type, const struct stat *st, const char *content,
		   const char *name, const char *target)
{
	char line[9000];
	size_t path_n = strlen(d->path) + strlen(name);
	bool link = type == 'l';
	int len = snprintf(
	    line, sizeof(line), "%c %04o %u %u %" PRIu64 " %" PRId64 " %s %zu:%s%s %zu:%s\n", type,
	    link ? 0777 : st->st_mode & 07777, d->owners ? st->st_uid : 0,
	    d->owners ? st->st_gid : 0, type == 'f' ? (uint64_t)st->st_size : 0,
	    (int64_t)st->st_mtim.tv_sec, content, path_n, d->path, name, strlen(target), target);

	(void)crypto_hash_sha256_update(&d->all, (const uint8_t *)line, (unsigned long long)len);
}

/* Contents with several names are read once, however many names the image gives them. */
static int hash_once(struct digest *d, int dirfd, const char *name, const struct stat *st,
		     char hex[IMAGE_DIGEST_LEN + 1])
{
	const uint8_t *known = contents_find(d->known, st->st_dev, st->st_ino);
	uint8_t sum[CONTENTS_SUM];
	int r = 0;

	if (known == NULL) {
		r = hash_file(d, dirfd, name, sum);
		if (r == 0 && st->st_nlink > 1)
			contents_put(d->known, st->st_dev, st->st_ino, sum);
		known = sum;
	}
	if (r == 0)
		(void)sodium_bin2hex(hex, IMAGE_DIGEST_LEN + 1, known, CONTENTS_SUM);
	return r;
}

static int digest_dir(struct digest *d, int fd, unsigned depth);

static int digest_one(struct digest *d, int dirfd, const char *name, unsigned depth)
{
	char hex[IMAGE_DIGEST_LEN + 1], target[4097];
	size_t before = strlen(d->path);
	struct stat st;
	ssize_t n;
	int r = 0;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return failed(d, -errno, name);
	if (before + strlen(name) + 2 > sizeof(d->path))
		return failed(d, -ENAMETOOLONG, name);
	if (S_ISREG(st.st_mode)) {
		r = hash_once(d, dirfd, name, &st, hex);
		if (r < 0)
			return failed(d, r, name);
		record(d, 'f', &st, hex, name, "");
	} else if (S_ISLNK(st.st_mode)) {
		n = readlinkat(dirfd, name, target, sizeof(target) - 1);
		if (n < 0)
			return failed(d, -errno, name);
		target[n] = '\0';
		record(d, 'l', &st, "-", name, target);
	} else if (S_ISDIR(st.st_mode)) {
		_cleanup_close_ int fd = tree_enter(dirfd, name);

		if (fd < 0)
			return failed(d, fd, name);
		record(d, 'd', &st, "-", name, "");
		(void)snprintf(d->path + before, sizeof(d->path) - before, "%s/", name);
		r = digest_dir(d, fd, depth + 1);
		d->path[before] = '\0';
		if ((st.st_mode & 0700) != 0700)
			(void)!fchmodat(dirfd, name, st.st_mode & 07777, 0);
	} else {
		return failed(d, -EINVAL, name);
	}
	return r;
}

static int digest_dir(struct digest *d, int fd, unsigned depth)
{
	struct tree_names l = TREE_NAMES_INIT;
	int r = depth > TREE_DEPTH_MAX ? -ELOOP : tree_names(fd, &l);

	if (r < 0)
		r = failed(d, r, "");
	for (size_t i = 0; r == 0 && i < l.n; i++)
		r = digest_one(d, fd, l.v[i], depth);
	tree_names_done(&l);
	return r;
}

int tree_digest(int dirfd, struct contents *known, char ret[IMAGE_DIGEST_LEN + 1], struct err *e)
{
	_cleanup_free_ struct digest *d = malloc(sizeof(*d));
	_cleanup_free_ uint8_t *buf = malloc(DIGEST_BUF);
	struct contents *own = known == NULL ? contents_new() : NULL;
	uint8_t sum[crypto_hash_sha256_BYTES];
	struct stat st;
	int r;

	if (d == NULL || buf == NULL || (known == NULL && own == NULL))
		return err_no_memory(e);
	d->buf = buf;
	d->known = known != NULL ? known : own;
	d->owners = ids_host_root();
	d->path[0] = '\0';
	d->e = e;
	(void)crypto_hash_sha256_init(&d->all);
	r = sodium_init() < 0 ? -EIO : fstat(dirfd, &st) < 0 ? -errno : 0;
	if (r < 0) {
		r = err_set(e, ERR_INTERNAL, -r, "image: %s", strerror(-r));
	} else {
		record(d, 'd', &st, "-", "", "");
		r = digest_dir(d, dirfd, 0);
	}
	contents_free(own);
	if (r < 0)
		return r;
	(void)crypto_hash_sha256_final(&d->all, sum);
	(void)sodium_bin2hex(ret, IMAGE_DIGEST_LEN + 1, sum, sizeof(sum));
	return 0;
}

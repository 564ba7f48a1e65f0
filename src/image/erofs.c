#include "parse/erofs.h"
#include "base/cleanup.h"
#include "image/store_priv.h"
#include "sys/file.h"
#include "sys/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * The EROFS file of an image, and whether an image still is what it was. The file comes through a
 * pipe from a sandbox in which mkfs.erofs has read the image's hostile tree, so it is hostile too:
 * it is bounded, its superblock is compared with its size, and no kernel of this host ever mounts
 * it.
 *
 * It is written into tmp/ and takes its place by one rename, after the file with its sum. Death in
 * between leaves a sum without a file, which the next maker replaces.
 */

static const char file_name[] = "image.erofs", sum_name[] = "image.erofs.sha256";
enum { CHUNK = 256 * 1024, SUM_TEXT = IMAGE_DIGEST_LEN + 1 };

static int wrong(struct err *e, int r, const char *why)
{
	return err_set(e, ERR_INVALID, -r, "the EROFS file: %s", why);
}

static int check_super(int fd, uint64_t size, struct err *e)
{
	uint8_t super[EROFS_SUPER_SIZE];
	struct erofs_super read_back;
	const char *why = NULL;

	if (pread(fd, super, sizeof(super), EROFS_SUPER_AT) != (ssize_t)sizeof(super))
		return wrong(e, -ENODATA, "too short for a superblock");
	return erofs_super_read(super, size, &read_back, &why) < 0 ? wrong(e, -EINVAL, why) : 0;
}

/* Copy (to >= 0) or only read `from` to its end, with the sum of what it holds. */
static int digest_of(int from, int to, uint64_t max, uint64_t *size, char sum[SUM_TEXT + 1],
		     struct err *e)
{
	_cleanup_free_ uint8_t *chunk = malloc(CHUNK);
	uint8_t raw[crypto_hash_sha256_BYTES];
	crypto_hash_sha256_state h;
	ssize_t n;

	*size = 0;
	if (chunk == NULL || sodium_init() < 0)
		return err_no_memory(e);
	(void)crypto_hash_sha256_init(&h);
	while ((n = read(from, chunk, CHUNK)) != 0) {
		int r = n < 0 ? -errno : to < 0 ? 0 : file_write_all(to, chunk, (size_t)n);

		if (r == -EINTR)
			continue;
		if (r < 0)
			return err_set(e, ERR_INTERNAL, -r, "the EROFS file: %s", strerror(-r));
		(void)crypto_hash_sha256_update(&h, chunk, (unsigned long long)n);
		*size += (uint64_t)n;
		if (*size > max)
			return wrong(e, -EFBIG, "larger than its image can need");
	}
	(void)crypto_hash_sha256_final(&h, raw);
	(void)sodium_bin2hex(sum, SUM_TEXT + 1, raw, sizeof(raw));
	sum[IMAGE_DIGEST_LEN] = '\n';
	sum[SUM_TEXT] = '\0';
	return 0;
}

int image_erofs_find(const struct image_found *f, struct image_erofs *ret, struct err *e)
{
	_cleanup_close_ int fd =
	    openat(f->lock_fd, file_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, ERR_INTERNAL, errno, "%s/%s: %s", f->dir, file_name,
			       strerror(errno));
	if (!S_ISREG(st.st_mode))
		return wrong(e, -EINVAL, "it is no file");
	ret->size = (uint64_t)st.st_size;
	(void)snprintf(ret->path, sizeof(ret->path), "%s/%s", f->dir, file_name);
	return check_super(fd, ret->size, e) < 0 ? -EINVAL : 1;
}

/* Into a folder of tmp/: the file and its sum, both on the disk. */
static int write_both(int from, int dirfd, uint64_t max, uint64_t *size, struct err *e)
{
	_cleanup_close_ int fd =
	    openat(dirfd, file_name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	_cleanup_close_ int sum_fd =
	    openat(dirfd, sum_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	char sum[SUM_TEXT + 1];
	int r;

	if (fd < 0 || sum_fd < 0)
		return err_set(e, ERR_INTERNAL, errno, "the EROFS file: %s", strerror(errno));
	r = digest_of(from, fd, max, size, sum, e);
	if (r == 0)
		r = check_super(fd, *size, e);
	if (r == 0 &&
	    ((r = file_write_all(sum_fd, sum, SUM_TEXT)) < 0 ||
	     (fsync(sum_fd) < 0 && (r = -errno) < 0) || (fsync(fd) < 0 && (r = -errno) < 0)))
		r = err_set(e, ERR_INTERNAL, -r, "the EROFS file: %s", strerror(-r));
	return r;
}

int image_erofs_take(const struct image_found *f, int from, struct image_erofs *ret, struct err *e)
{
	_cleanup_close_ int store = store_open(e), dirfd = -1;
	char name[STORE_TMP_NAME];
	struct image_info info;
	uint64_t max;
	int r, lock;

	if (store < 0)
		return store;
	r = image_info_read(f, &info, e);
	if (r < 0)
		return r;
	/* whole blocks for contents, for an inode with its name, and for the mapping of links and
	 * folders */
	max = info.bytes + (info.entries + 1024) * 4 * EROFS_BLOCK;
	image_info_done(&info);
	r = store_tmp(store, name, &dirfd, e);
	if (r < 0)
		return r;
	r = write_both(from, dirfd, max, &ret->size, e);
	if (r == 0) {
		lock = r = store_lock(store, e);
		if (lock >= 0) {
			r = renameat(dirfd, sum_name, f->lock_fd, sum_name) < 0 ||
				    renameat(dirfd, file_name, f->lock_fd, file_name) < 0
				? err_set(e, ERR_INTERNAL, errno,
					  "image %.12s: keeping its EROFS file: %s", f->digest,
					  strerror(errno))
				: 0;
			(void)fsync(f->lock_fd);
			(void)close(lock);
		}
	}
	(void)!tree_remove(store, name);
	(void)snprintf(ret->path, sizeof(ret->path), "%s/%s", f->dir, file_name);
	return r;
}

static int verify_erofs(const struct image_found *f, struct err *e)
{
	_cleanup_close_ int fd =
	    openat(f->lock_fd, file_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	char sum[SUM_TEXT + 1], was[SUM_TEXT + 2];
	uint64_t size;
	int r;

	if (fd < 0)
		return errno == ENOENT
			   ? 0
			   : err_set(e, ERR_INVALID, errno, "image %.12s: its EROFS file: %s",
				     f->digest, strerror(errno));
	r = digest_of(fd, -1, UINT64_MAX, &size, sum, e);
	if (r == 0 &&
	    (file_get(f->lock_fd, sum_name, was, sizeof(was)) != SUM_TEXT || strcmp(was, sum) != 0))
		r = err_set(e, ERR_INVALID, EINVAL,
			    "image %.12s: its EROFS file was changed: 'brig image erofs --again' "
			    "makes it new",
			    f->digest);
	return r;
}

int image_verify(const struct image_found *f, struct err *e)
{
	char digest[IMAGE_DIGEST_LEN + 1];
	_cleanup_close_ int fd =
	    openat(f->lock_fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	int r = fd < 0 ? err_set(e, ERR_INVALID, errno, "image %.12s: it has no tree", f->digest)
		       : tree_digest(fd, NULL, digest, e);

	if (r == 0 && strcmp(digest, f->digest) != 0)
		return err_set(e, ERR_INVALID, EINVAL,
			       "image %.12s was changed: its files make sha256:%.12s", f->digest,
			       digest);
	return r == 0 ? verify_erofs(f, e) : r;
}

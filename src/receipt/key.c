#include "receipt/envelope_priv.h"

#include "base/cleanup.h"
#include "base/quote.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/*
 * The machine's signing key. Only its owner and root may read it; whoever can write the folder
 * could replace it, so that is refused too. A new one is written under another name, synced, and
 * linked to its own: link(2) fails for all but the first of several makers, who then read the
 * winner's.
 */

static const char key_name[] = "receipt.key";

int receipt_key_from_seed(const uint8_t seed[RECEIPT_SEED], struct receipt_key *ret)
{
	_Static_assert(sizeof(ret->secret) == crypto_sign_SECRETKEYBYTES &&
			   RECEIPT_SEED == crypto_sign_SEEDBYTES &&
			   RECEIPT_PUB == crypto_sign_PUBLICKEYBYTES &&
			   RECEIPT_SIG == crypto_sign_BYTES,
		       "sizes of Ed25519");
	if (sodium_init() < 0 || crypto_sign_seed_keypair(ret->pub, ret->secret, seed) != 0)
		return -EIO;
	return 0;
}

void receipt_key_wipe(struct receipt_key *k) { explicit_bzero(k, sizeof(*k)); }

static int write_new(int dir_fd, struct err *e)
{
	uint8_t seed[RECEIPT_SEED];
	char temp[64];
	int fd, r = 0;

	if (sodium_init() < 0)
		return err_set(e, ERR_INTERNAL, EIO, "libsodium cannot start");
	(void)snprintf(temp, sizeof(temp), ".new-%08x%08x", randombytes_random(),
		       randombytes_random());
	fd = openat(dir_fd, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_set(e, ERR_DENIED, errno, "the signing key cannot be made: %s",
			       strerror(errno));
	randombytes_buf(seed, sizeof(seed));
	if (fchmod(fd, 0600) < 0)
		r = -errno;
	if (r == 0)
		r = file_write_all(fd, seed, sizeof(seed));
	explicit_bzero(seed, sizeof(seed));
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (close(fd) < 0 && r == 0)
		r = -errno;
	if (r == 0 && linkat(dir_fd, temp, dir_fd, key_name, 0) < 0 && errno != EEXIST)
		r = -errno;
	(void)unlinkat(dir_fd, temp, 0);
	if (r == 0)
		(void)fsync(dir_fd);
	return r == 0
		   ? 0
		   : err_set(e, ERR_DENIED, -r, "the signing key cannot be made: %s", strerror(-r));
}

static int check_key(int fd, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(e, ERR_DENIED, EPERM, "it is no plain file");
	if (st.st_uid != geteuid())
		return err_set(e, ERR_DENIED, EPERM, "it belongs to somebody else");
	if ((st.st_mode & 07777) != 0600)
		return err_set(e, ERR_DENIED, EPERM,
			       "its mode is %03o and must be 600: others may have read it",
			       st.st_mode & 07777);
	if (st.st_size != RECEIPT_SEED)
		return err_set(e, ERR_DENIED, EINVAL, "it has %lld bytes instead of %d",
			       (long long)st.st_size, RECEIPT_SEED);
	return 0;
}

static int open_folder(const char *folder, int *ret_fd, struct err *e)
{
	_cleanup_close_ int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, ERR_DENIED, errno, "key folder '%.150s': %s", folder,
			       strerror(errno));
	if (st.st_uid != geteuid() || (st.st_mode & 022) != 0)
		return err_set(
		    e, ERR_DENIED, EPERM,
		    "key folder '%.150s' must belong to you and be writable by nobody else",
		    folder);
	*ret_fd = steal_fd(&fd);
	return 0;
}

int receipt_seed_load(const char *folder, bool make, uint8_t ret[RECEIPT_SEED], struct err *e)
{
	_cleanup_close_ int dir_fd = -1, fd = -1;
	int r = open_folder(folder, &dir_fd, e);

	if (r < 0)
		return r;
	fd = openat(dir_fd, key_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 && errno == ENOENT && make) {
		r = write_new(dir_fd, e);
		if (r < 0)
			return r;
		fd = openat(dir_fd, key_name,
			    O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
	}
	if (fd < 0)
		return err_set(e, ERR_DENIED, errno, "signing key '%.150s/%s': %s", folder,
			       key_name, errno == ELOOP ? "it is a link" : strerror(errno));
	r = check_key(fd, e);
	if (r < 0)
		return err_wrap(e, r, "signing key '%.120s/%s'", folder, key_name);
	if (read(fd, ret, RECEIPT_SEED) != RECEIPT_SEED)
		return err_set(e, ERR_DENIED, EIO, "signing key '%.150s/%s' cannot be read", folder,
			       key_name);
	return 0;
}

const char *receipt_pub_text(const uint8_t pub[RECEIPT_PUB], char dst[RECEIPT_HEX])
{
	return sodium_bin2hex(dst, RECEIPT_HEX, pub, RECEIPT_PUB);
}

static bool from_hex(const char *text, size_t n, uint8_t ret[RECEIPT_PUB])
{
	const size_t want = 2 * (size_t)RECEIPT_PUB;

	return (n == want || (n == want + 1 && text[want] == '\n')) && receipt_unhex(text, RECEIPT_PUB, ret);
}

int receipt_pub_read(const char *word, uint8_t ret[RECEIPT_PUB], struct err *e)
{
	char text[RECEIPT_HEX + 2], q[QUOTE_MAX];
	ssize_t n;

	if (from_hex(word, strlen(word), ret))
		return 0;
	n = file_get(AT_FDCWD, word, text, sizeof(text));
	if (n < 0 && n != -EFBIG)
		return err_set(e, ERR_INVALID, (int)-n,
			       "--key %s: neither 64 hex digits nor a file: %s", quote(word, q),
			       strerror((int)-n));
	if (n < 0 || !from_hex(text, (size_t)n, ret))
		return err_set(e, ERR_INVALID, EINVAL,
			       "--key %s: the file must hold 64 lower-case hex digits ('brig "
			       "receipt key' prints them)",
			       quote(word, q));
	return 0;
}

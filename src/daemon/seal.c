#include "daemon/seal.h"

#include "base/cleanup.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>

/* BLAKE2b keyed with the secret. A token is its hash of "kind:id"; kinds have no ':' in them, so no two inputs are
 * the same. */

static int make(int dir_fd, struct seal *ret, struct err *e)
{
	_cleanup_close_ int fd =
	    openat(dir_fd, "secret.new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r;

	if (fd < 0)
		return err_set(e, ERR_INTERNAL, errno, "make the server's secret");
	randombytes_buf(ret->key, sizeof(ret->key));
	r = file_write_all(fd, ret->key, sizeof(ret->key));
	if (r == 0 && (fsync(fd) < 0 || renameat(dir_fd, "secret.new", dir_fd, "secret") < 0))
		r = -errno;
	return r < 0 ? err_set(e, ERR_INTERNAL, -r, "write the server's secret") : 0;
}

int seal_open(int dir_fd, struct seal *ret, struct err *e)
{
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (sodium_init() < 0)
		return err_set(e, ERR_INTERNAL, ENOSYS, "no source of random numbers");
	fd = openat(dir_fd, "secret", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return make(dir_fd, ret, e);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, ERR_INTERNAL, errno, "open the server's secret");
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0)
		return err_set(e, ERR_DENIED, EPERM, "the server's secret is not brigd's alone: its mode must be 0600");
	if (read(fd, ret->key, sizeof(ret->key)) != (ssize_t)sizeof(ret->key))
		return err_set(e, ERR_INTERNAL, EIO, "the server's secret is cut short");
	return 0;
}

void seal_close(struct seal *s) { sodium_memzero(s, sizeof(*s)); }

void seal_token(const struct seal *s, const char *kind, const char *id, char dst[SEAL_TOKEN_SIZE])
{
	crypto_generichash_state st;
	uint8_t h[SEAL_BYTES];

	(void)crypto_generichash_init(&st, s->key, sizeof(s->key), sizeof(h));
	(void)crypto_generichash_update(&st, (const uint8_t *)kind, strlen(kind));
	(void)crypto_generichash_update(&st, (const uint8_t *)":", 1);
	(void)crypto_generichash_update(&st, (const uint8_t *)id, strlen(id));
	(void)crypto_generichash_final(&st, h, sizeof(h));
	(void)sodium_bin2hex(dst, SEAL_TOKEN_SIZE, h, sizeof(h));
}

void seal_hash(const struct seal *s, const char *word, uint8_t dst[SEAL_BYTES])
{
	(void)crypto_generichash(dst, SEAL_BYTES, (const uint8_t *)word, strlen(word), s->key, sizeof(s->key));
}

bool seal_same(const char *given, const char *want)
{
	uint8_t a[SEAL_BYTES], b[SEAL_BYTES];

	/* hashes have one length, and where they differ says nothing about the words */
	(void)crypto_generichash(a, sizeof(a), (const uint8_t *)given, strlen(given), NULL, 0);
	(void)crypto_generichash(b, sizeof(b), (const uint8_t *)want, strlen(want), NULL, 0);
	return sodium_memcmp(a, b, sizeof(a)) == 0;
}

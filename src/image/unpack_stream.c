#include "base/num.h"
#include "base/quote.h"
#include "image/unpack_priv.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* The unpacker's stream: read in large pieces, handed out in small ones; and what is said when it is refused. */

int unpack_refuse(struct unpack *u, const char *path, const char *why)
{
	char q[QUOTE_MAX];

	return err_set(u->e, ERR_INVALID, EINVAL, "the stream is refused at %s: %s", quote(path, q), why);
}

int unpack_cut_off(struct unpack *u, const char *path)
{
	char q[QUOTE_MAX];

	return err_set(u->e, ERR_INVALID, ENODATA, "the stream is refused at %s: it is cut off", quote(path, q));
}

int unpack_broke(struct unpack *u, const char *path, int r)
{
	char q[QUOTE_MAX];

	return err_set(u->e, ERR_INTERNAL, -r, "unpacking %s: %s", quote(path, q), strerror(-r));
}

ssize_t unpack_some(struct unpack *u, const uint8_t **ret, size_t n)
{
	if (u->at == u->have) {
		ssize_t got;

		do
			got = read(u->in, u->buf, UNPACK_IN_SIZE);
		while (got < 0 && errno == EINTR);
		if (got < 0)
			return err_set(u->e, ERR_INTERNAL, errno, "reading the stream: %s", strerror(errno));
		u->at = 0;
		u->have = (size_t)got;
		if (got == 0)
			return 0;
	}
	n = MIN(n, u->have - u->at);
	*ret = u->buf + u->at;
	u->at += n;
	return (ssize_t)n;
}

int unpack_all_of(struct unpack *u, uint8_t *dst, size_t n)
{
	size_t done = 0;

	while (done < n) {
		const uint8_t *p;
		ssize_t got = unpack_some(u, &p, n - done);

		if (got < 0)
			return (int)got;
		if (got == 0)
			return done == 0 ? 0 : unpack_cut_off(u, u->entry.path);
		memcpy(dst + done, p, (size_t)got);
		done += (size_t)got;
	}
	return 1;
}

int unpack_skip_padding(struct unpack *u, uint64_t n)
{
	uint8_t pad[TAR_BLOCK];
	size_t rest = (size_t)(-n & (TAR_BLOCK - 1));
	int r = rest == 0 ? 1 : unpack_all_of(u, pad, rest);

	return r == 1 ? 0 : r == 0 ? unpack_cut_off(u, u->entry.path) : r;
}

#include "wire/envelope.h"

#include <errno.h>
#include <string.h>

/* What is read is a client's, of any content. */

static uint32_t load_be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

int envelope_next(const void *p, size_t n, uint32_t max, struct envelope *ret)
{
	const uint8_t *b = p;
	uint32_t len;

	if (n > 0 && (b[0] & ~ENVELOPE_END) != 0)
		return -EPROTO;
	if (n < ENVELOPE_HEADER)
		return 0;
	len = load_be32(b + 1);
	if (len > max || len > INT32_MAX - ENVELOPE_HEADER)
		return -EMSGSIZE;
	if (n - ENVELOPE_HEADER < len)
		return 0;
	*ret = (struct envelope){.flags = b[0], .p = b + ENVELOPE_HEADER, .n = len};
	return (int)(ENVELOPE_HEADER + len);
}

int envelope_put(struct buf *b, uint8_t flags, const void *p, size_t n)
{
	uint8_t *dst;

	if (n > UINT32_MAX)
		return -EMSGSIZE;
	dst = buf_reserve(b, ENVELOPE_HEADER + n);
	if (dst == NULL)
		return buf_room(b) < ENVELOPE_HEADER + n ? -ENOBUFS : -ENOMEM;
	dst[0] = flags;
	dst[1] = (uint8_t)(n >> 24);
	dst[2] = (uint8_t)(n >> 16);
	dst[3] = (uint8_t)(n >> 8);
	dst[4] = (uint8_t)n;
	if (n > 0)
		memcpy(dst + ENVELOPE_HEADER, p, n);
	buf_commit(b, ENVELOPE_HEADER + n);
	return 0;
}

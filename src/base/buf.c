#include "base/buf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Theory of operation: one malloc'd block, a read offset and a length. Consuming moves the
 * offset; the block is compacted only when an append needs the room at its front, so steady
 * traffic does not copy. Growth doubles, bounded by max + the offset's slack. */

#define BUF_FIRST 1000u /* most hold one short message; a block of this size shares a page with others */
#define BUF_MIN 4096u

void buf_init(struct buf *b, size_t max) { *b = (struct buf){.max = max}; }

void buf_done(struct buf *b)
{
	size_t max = b->max;

	free(b->data);
	*b = (struct buf){.max = max};
}

uint8_t *buf_reserve(struct buf *b, size_t n)
{
	size_t need, cap;
	uint8_t *p;

	if (b->len > b->max || n > b->max - b->len)
		return NULL;
	need = b->len + n;
	if (b->data != NULL && b->off <= b->cap && need <= b->cap - b->off)
		return b->data + b->off + b->len;
	if (b->data != NULL && need <= b->cap) {
		memmove(b->data, b->data + b->off, b->len);
		b->off = 0;
		return b->data + b->len;
	}
	cap = need <= BUF_FIRST ? BUF_FIRST : b->cap < BUF_MIN ? BUF_MIN : b->cap;
	while (cap < need) {
		if (cap > SIZE_MAX / 2)
			return NULL;
		cap *= 2;
	}
	p = malloc(cap);
	if (p == NULL)
		return NULL;
	if (b->data != NULL)
		memcpy(p, b->data + b->off, b->len);
	free(b->data);
	b->data = p;
	b->cap = cap;
	b->off = 0;
	return p + b->len;
}

void buf_commit(struct buf *b, size_t n) { b->len += n; }

int buf_put(struct buf *b, const void *p, size_t n)
{
	uint8_t *dst;

	if (n == 0)
		return 0;
	dst = buf_reserve(b, n);
	if (dst == NULL)
		return b->len > b->max || n > b->max - b->len ? -ENOBUFS : -ENOMEM;
	memcpy(dst, p, n);
	b->len += n;
	return 0;
}

void buf_consume(struct buf *b, size_t n)
{
	if (n > b->len)
		n = b->len;
	b->off += n;
	b->len -= n;
	if (b->len == 0)
		b->off = 0;
}

#pragma once
/*
 * A growing byte buffer with a hard maximum.
 *
 * Bytes are appended at the end and consumed from the front. The buffer never grows past the
 * maximum given at init: an append that would is refused whole. Not thread-safe.
 */
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct buf {
	uint8_t *data; /* owned */
	size_t off;    /* first unread byte */
	size_t len;    /* unread bytes */
	size_t cap;
	size_t max; /* len never exceeds this; bytes */
};

void buf_init(struct buf *b, size_t max);
void buf_done(struct buf *b); /* accepts a zeroed buffer; leaves it empty, the maximum kept */

/* Append n bytes. 0, -ENOBUFS when the maximum would be passed, -ENOMEM. */
int must_check buf_put(struct buf *b, const void *p, size_t n);
/* Make room for n more bytes and return the write position, NULL when refused. */
uint8_t *buf_reserve(struct buf *b, size_t n);
/* Count n bytes written at the position buf_reserve returned. n <= the reserved size. */
void buf_commit(struct buf *b, size_t n);
/* Drop n bytes from the front. n <= len. */
void buf_consume(struct buf *b, size_t n);
/* NULL when nothing was ever put. */
static inline const uint8_t *buf_head(const struct buf *b)
{
	return b->data == NULL ? NULL : b->data + b->off;
}
static inline size_t buf_room(const struct buf *b) { return b->max - b->len; }

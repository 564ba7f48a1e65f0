#pragma once
/*
 * Envelopes of the Connect protocol's streams: a flag byte, a big-endian length, that many bytes.
 */
#include "base/buf.h"

#include <stddef.h>
#include <stdint.h>

enum { ENVELOPE_HEADER = 5, ENVELOPE_PACKED = 1, ENVELOPE_END = 2 };

struct envelope {
	uint8_t flags;
	const uint8_t *p; /* borrowed */
	uint32_t n;
};
/* The first envelope of p[0..n): its size, 0 = more is needed, -EPROTO for flags nobody knows or
 * packed bytes (nobody was told that we read them), -EMSGSIZE over max bytes. */
int envelope_next(const void *p, size_t n, uint32_t max, struct envelope *ret);
/* Append one. 0, -ENOBUFS, -ENOMEM, -EMSGSIZE. */
int must_check envelope_put(struct buf *b, uint8_t flags, const void *p, size_t n);

#pragma once
/*
 * Finding given byte strings in a stream, across the borders of what comes at a time, and masking them. Pure. The stream
 * is hostile, the strings are the operator's.
 *
 * What could be the beginning of a string is held back from SIEVE_HOLD bytes on, so that a stream which pauses anywhere
 * else is never stopped; shorter beginnings pass and are remembered: should the rest follow, that is masked.
 */
#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIEVE_HOLD = 8, SIEVE_SHORTEST = 4, SIEVE_LONGEST = 12288, SIEVE_NEEDLES_MAX = 512 };

struct needle {
	uint8_t *p; /* owned */
	size_t n;
	uint32_t tag; /* whose it is: below 64 */
};
struct needles {
	uint32_t n;
	size_t longest;
	struct needle *v;
	uint8_t starts[65536 / 8]; /* the first two bytes of any */
};

void needles_done(struct needles *s); /* accepts a zeroed one; leaves it empty */
/* Add one. Shorter than SIEVE_SHORTEST: nothing is added, it would be found everywhere. 0, -ENOMEM, -E2BIG. */
int must_check needles_add(struct needles *s, const void *p, size_t n, uint32_t tag);
/* Add it as it is, in base64 and base64url at any offset, and percent-encoded. */
int must_check needles_add_forms(struct needles *s, const char *text, uint32_t tag);
/* The tags found in n bytes, as bits; with `mask` what was found is overwritten. */
uint64_t needles_in(const struct needles *s, uint8_t *p, size_t n, bool mask);

struct sieve {
	struct buf b;   /* remembered and held bytes */
	size_t passed;  /* so many at its front went out already */
	size_t masked;  /* so many at its front are part of something found */
};
void sieve_init(struct sieve *v);
void sieve_done(struct sieve *v);
/*
 * Take n bytes in and write what may go out to `out`, with what was found masked; last: nothing is held back. The tags
 * found, as bits, in *found. 0, -ENOMEM, -ENOBUFS (`out` has not n + SIEVE_LONGEST bytes of room).
 */
int must_check sieve_pass(struct sieve *v, const struct needles *s, const uint8_t *p, size_t n, bool last,
			  struct buf *out, uint64_t *found);

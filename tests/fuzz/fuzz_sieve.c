/*
 * Strings looked for in a stream, against a search that sees all of it: input is the strings (a byte of length each, 0 ends
 * them), a byte that says how much comes at a time, and the stream. Whatever the pieces are, the same is found, nothing else
 * is changed, and of what was found only a short beginning may have passed.
 */
#include "base/num.h"
#include "inspect/sieve.h"

#include <stdlib.h>
#include <string.h>

enum { STRINGS_MAX = 8, STREAM_MAX = 4096 };
enum { FREE, MAY /* the beginning of one */, MUST };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a search of the whole finds: its tags, and what each byte must become. */
static uint64_t look(const struct needles *s, const uint8_t *p, size_t n, uint8_t *mask)
{
	uint64_t found = 0;

	memset(mask, FREE, n);
	for (size_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < s->n; k++) {
			const struct needle *x = &s->v[k];
			size_t hold = MIN((size_t)SIEVE_HOLD, (x->n + 1) / 2);

			if (x->n > n - i || memcmp(x->p, p + i, x->n) != 0)
				continue;
			found |= UINT64_C(1) << x->tag;
			for (size_t m = 0; m < x->n; m++)
				if (mask[i + m] != MUST)
					mask[i + m] = m >= hold ? MUST : MAY;
		}
	return found;
}

static void pass(const struct needles *s, const uint8_t *p, size_t n, size_t step, const uint8_t *mask, uint64_t want)
{
	struct buf out;
	struct sieve v;
	uint64_t found = 0;
	const uint8_t *o;

	sieve_init(&v);
	buf_init(&out, STREAM_MAX + SIEVE_LONGEST);
	for (size_t at = 0; at <= n; at += step) {
		size_t k = MIN(step, n - at);

		if (sieve_pass(&v, s, p + at, k, at + step > n, &out, &found) < 0)
			abort();
		if (at + k - out.len > s->longest)
			abort(); /* more is held back than could be a beginning */
	}
	o = buf_head(&out);
	if (out.len != n || found != want)
		abort();
	for (size_t i = 0; i < n; i++) {
		bool masked = o[i] == '*', as_it_was = o[i] == p[i];

		if ((!masked && !as_it_was) || (!as_it_was && mask[i] == FREE) || (!masked && mask[i] == MUST) ||
		    (!masked && mask[i] == MAY && step > n))
			abort();
	}
	buf_done(&out);
	sieve_done(&v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t mask[STREAM_MAX], copy[STREAM_MAX];
	struct needles s = {.n = 0};
	size_t at = 0;

	for (uint32_t i = 0; i < STRINGS_MAX && at < size && data[at] != 0; i++) {
		size_t n = MIN((size_t)data[at], size - at - 1);
		char text[256];

		memcpy(text, data + at + 1, n);
		text[n] = '\0';
		at += 1 + n;
		if ((i % 2 == 0 ? needles_add(&s, text, n, i) : needles_add_forms(&s, text, i)) < 0)
			abort();
	}
	at += at < size ? 1 : 0;
	if (s.n > 0 && at < size && size - at - 1 <= STREAM_MAX) {
		const uint8_t *p = data + at + 1;
		size_t n = size - at - 1;
		uint64_t want = look(&s, p, n, mask);

		pass(&s, p, n, n + 1, mask, want);
		pass(&s, p, n, 1 + data[at] % 64u, mask, want);
		memcpy(copy, p, n);
		if (needles_in(&s, copy, n, true) != want)
			abort();
		for (size_t i = 0; i < n; i++)
			if (copy[i] != (mask[i] == FREE ? p[i] : '*'))
				abort();
	}
	needles_done(&s);
	return 0;
}

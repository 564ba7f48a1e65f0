#include "inspect/sieve.h"

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/num.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * Every position is looked up by its two first bytes in a bitmap; the few that pass are compared with every string that
 * begins so. What is masked are copies: the bytes kept stay as they came, so strings that overlap are all found.
 */

void needles_done(struct needles *s)
{
	for (uint32_t i = 0; i < s->n; i++) {
		explicit_bzero(s->v[i].p, s->v[i].n);
		free(s->v[i].p);
	}
	free(s->v);
	*s = (struct needles){.n = 0};
}

int needles_add(struct needles *s, const void *p, size_t n, uint32_t tag)
{
	struct needle *grown;
	uint32_t pair;

	if (n < SIEVE_SHORTEST)
		return 0;
	if (n > SIEVE_LONGEST || s->n == SIEVE_NEEDLES_MAX)
		return -E2BIG;
	for (uint32_t i = 0; i < s->n; i++)
		if (s->v[i].n == n && s->v[i].tag == tag && memcmp(s->v[i].p, p, n) == 0)
			return 0;
	grown = realloc(s->v, (s->n + 1) * sizeof(*grown));
	if (grown == NULL)
		return -ENOMEM;
	s->v = grown;
	grown[s->n] = (struct needle){.p = malloc(n), .n = n, .tag = tag};
	if (grown[s->n].p == NULL)
		return -ENOMEM;
	memcpy(grown[s->n].p, p, n);
	pair = (uint32_t)grown[s->n].p[0] << 8 | grown[s->n].p[1];
	s->starts[pair / 8] |= (uint8_t)(1u << pair % 8);
	s->longest = MAX(s->longest, n);
	s->n++;
	return 0;
}

/* base64 of the text behind `before` other bytes, without the characters those have a part in. */
static int add_base64(struct needles *s, const char *text, size_t n, size_t before, uint32_t tag)
{
	_cleanup_free_ char *raw = calloc(1, n + before);
	_cleanup_free_ char *code = NULL;
	size_t first = (before * 8 + 5) / 6, last = (before + n) * 8 / 6;
	int r;

	if (raw == NULL)
		return -ENOMEM;
	memcpy(raw + before, text, n);
	code = base64_encode(raw, n + before);
	if (code == NULL)
		return -ENOMEM;
	r = last > first ? needles_add(s, code + first, last - first, tag) : 0;
	for (char *c = code; *c != '\0'; c++)
		*c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
	if (r == 0 && last > first)
		r = needles_add(s, code + first, last - first, tag);
	explicit_bzero(raw, n + before);
	explicit_bzero(code, strlen(code));
	return r;
}

static int add_percent(struct needles *s, const char *text, size_t n, uint32_t tag, bool upper)
{
	_cleanup_free_ char *out = malloc(n * 3 + 1);
	size_t to = 0;
	int r;

	if (out == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		char c = text[i];

		if ((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c != '\0' && strchr("-._~", c) != NULL))
			out[to++] = c;
		else
			to += (size_t)snprintf(out + to, 4, upper ? "%%%02X" : "%%%02x", (unsigned char)c);
	}
	r = needles_add(s, out, to, tag);
	explicit_bzero(out, to);
	return r;
}

int needles_add_forms(struct needles *s, const char *text, uint32_t tag)
{
	size_t n = strlen(text);
	int r = needles_add(s, text, n, tag);

	for (size_t before = 0; r == 0 && before < 3; before++)
		r = add_base64(s, text, n, before, tag);
	if (r == 0)
		r = add_percent(s, text, n, tag, true);
	return r < 0 ? r : add_percent(s, text, n, tag, false);
}

/* The longest string that stands at p[0..n): its size, 0 = none. All their tags in *found. */
static size_t at(const struct needles *s, const uint8_t *p, size_t n, uint64_t *found)
{
	uint32_t pair = (uint32_t)p[0] << 8 | p[1];
	size_t len = 0;

	if ((s->starts[pair / 8] & 1u << pair % 8) == 0)
		return 0;
	for (uint32_t i = 0; i < s->n; i++)
		if (s->v[i].n <= n && s->v[i].p[0] == p[0] && memcmp(s->v[i].p, p, s->v[i].n) == 0) {
			len = MAX(len, s->v[i].n);
			*found |= UINT64_C(1) << (s->v[i].tag & 63);
		}
	return len;
}

uint64_t needles_in(const struct needles *s, uint8_t *p, size_t n, bool mask)
{
	size_t from = 0, to = 0;
	uint64_t found = 0;

	for (size_t i = 0; s->n > 0 && i + 1 < n; i++) {
		size_t len = at(s, p + i, n - i, &found);

		if (len == 0)
			continue;
		if (i >= to) { /* what came before is not needed unmasked any more */
			if (mask && from < to)
				memset(p + from, '*', to - from);
			from = i;
		}
		to = MAX(to, i + len);
	}
	if (mask && from < to)
		memset(p + from, '*', to - from);
	return found;
}

void sieve_init(struct sieve *v)
{
	*v = (struct sieve){.passed = 0};
	buf_init(&v->b, SIZE_MAX / 4);
}

void sieve_done(struct sieve *v)
{
	if (v->b.data != NULL)
		explicit_bzero(v->b.data, v->b.cap);
	buf_done(&v->b);
	v->passed = v->masked = 0;
}

/* Where the first suffix begins that is the beginning of a string, of at least `least` bytes (or half of it, if shorter). */
static size_t open_from(const struct needles *s, const uint8_t *p, size_t n, size_t least)
{
	for (size_t h = n - MIN(n, s->longest - 1); h < n; h++)
		for (uint32_t i = 0; i < s->n; i++) {
			const struct needle *x = &s->v[i];

			if (x->p[0] == p[h] && n - h < x->n && n - h >= MIN(least, (x->n + 1) / 2) &&
			    memcmp(x->p, p + h, n - h) == 0)
				return h;
		}
	return n;
}

int sieve_pass(struct sieve *v, const struct needles *s, const uint8_t *p, size_t n, bool last, struct buf *out,
	       uint64_t *found)
{
	size_t len, keep, hold, to = v->masked, cut = to; /* cut: the end of what begins before `keep` */
	const uint8_t *b;
	uint8_t *o;

	if (buf_put(&v->b, p, n) < 0)
		return -ENOMEM;
	len = v->b.len;
	if (len == 0)
		return 0;
	b = buf_head(&v->b);
	hold = last ? len : open_from(s, b, len, SIEVE_HOLD);
	keep = last ? len : MIN(hold, open_from(s, b, len, 1));
	hold = MAX(hold, v->passed);
	o = buf_reserve(out, hold - v->passed);
	if (o == NULL)
		return -ENOBUFS;
	memcpy(o, b + v->passed, hold - v->passed);
	if (to > v->passed)
		memset(o, '*', MIN(to, hold) - v->passed);
	for (size_t i = 0; i + 1 < len; i++) {
		size_t k = at(s, b + i, len - i, found), from = MAX(MAX(i, to), v->passed);

		if (k == 0)
			continue;
		if (i + k > from && from < hold)
			memset(o + (from - v->passed), '*', MIN(i + k, hold) - from);
		to = MAX(to, i + k);
		if (i < keep) /* its beginning goes; what begins later is found again */
			cut = MAX(cut, i + k);
	}
	buf_commit(out, hold - v->passed);
	keep = MIN(keep, hold);
	v->masked = cut > keep ? cut - keep : 0;
	v->passed = hold - keep;
	buf_consume(&v->b, keep);
	return 0;
}

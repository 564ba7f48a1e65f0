/*
 * What programs print, as JSON text in ASCII. They print what they like, in pieces that end
 * anywhere: what is no UTF-8 becomes U+FFFD, and a character that is cut is kept until its rest
 * comes. Pure.
 */
#include "interp/interp.h"

#include <errno.h>
#include <string.h>

/* The code point at p[0..n) into *c: its length; 0 = cut; -1 = none (RFC 3629, 4). */
static int utf8_at(const uint8_t *p, size_t n, uint32_t *c)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	int len = p[0] < 0x80	? 1
		  : p[0] < 0xC2 ? -1
		  : p[0] < 0xE0 ? 2
		  : p[0] < 0xF0 ? 3
		  : p[0] < 0xF5 ? 4
				: -1;

	if (len < 2) {
		*c = p[0];
		return len;
	}
	*c = p[0] & (0x7Fu >> len);
	for (int i = 1; i < len; i++) {
		if ((size_t)i == n)
			return 0;
		if ((p[i] & 0xC0) != 0x80)
			return -1;
		*c = *c << 6 | (p[i] & 0x3F);
	}
	return *c < least[len] || *c > 0x10FFFF || (*c >= 0xD800 && *c < 0xE000) ? -1 : len;
}

static uint8_t *put_u(uint8_t *w, uint32_t c)
{
	static const char hex[] = "0123456789abcdef";

	*w++ = '\\';
	*w++ = 'u';
	for (int i = 12; i >= 0; i -= 4)
		*w++ = (uint8_t)hex[c >> i & 15];
	return w;
}

static uint8_t *put_char(uint8_t *w, uint32_t c)
{
	if (c == '\n' || c == '"' || c == '\\') {
		*w++ = '\\';
		*w++ = c == '\n' ? 'n' : (uint8_t)c;
	} else if (c >= 0x20 && c < 0x7F) {
		*w++ = (uint8_t)c;
	} else if (c < 0x10000) {
		w = put_u(w, c);
	} else {
		w = put_u(w, 0xD800 + ((c - 0x10000) >> 10));
		w = put_u(w, 0xDC00 + ((c - 0x10000) & 0x3FF));
	}
	return w;
}

/* p[0..n) with a whole event around it; with `last` a cut character is none. Returns the bytes
 * used. */
static ssize_t event(const char *type, const uint8_t *p, size_t n, bool last, struct buf *b)
{
	uint8_t *w = buf_reserve(b, 6 * n + 64), *start = w;
	size_t i = 0;

	if (w == NULL)
		return -ENOBUFS;
	w = (uint8_t *)mempcpy(w, "{\"type\":\"", 9);
	w = (uint8_t *)mempcpy(w, type, strlen(type));
	w = (uint8_t *)mempcpy(w, "\",\"text\":\"", 10);
	while (i < n) {
		uint32_t c = 0;
		int len = utf8_at(p + i, n - i, &c);

		if (len == 0 && !last)
			break;
		w = put_char(w, len > 0 ? c : 0xFFFD);
		i += len > 0 ? (size_t)len : 1;
	}
	w = (uint8_t *)mempcpy(w, "\"}\n", 3);
	if (i > 0)
		buf_commit(b, (size_t)(w - start));
	return (ssize_t)i;
}

int interp_text(struct interp_text *t, const char *type, const void *p, size_t n, struct buf *b)
{
	uint8_t whole[INTERP_TEXT_MAX + sizeof(t->part)];
	size_t all = t->part_n + n;
	ssize_t used;

	if (n > INTERP_TEXT_MAX)
		return -EINVAL;
	memcpy(whole, t->part, t->part_n);
	memcpy(whole + t->part_n, p, n);
	used = event(type, whole, all, false, b);
	if (used < 0)
		return (int)used;
	t->part_n = (uint8_t)(all - (size_t)used); /* less than a character */
	memcpy(t->part, whole + used, t->part_n);
	return 0;
}

int interp_text_end(struct interp_text *t, const char *type, struct buf *b)
{
	ssize_t r = t->part_n == 0 ? 0 : event(type, t->part, t->part_n, true, b);

	t->part_n = 0;
	return r < 0 ? (int)r : 0;
}

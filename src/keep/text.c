#include "keep/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Input is names of files and values of clients, of any content. */

/* Bytes of the character at p, 0 = it is none (RFC 3629). */
static size_t utf8(const uint8_t *p, size_t n)
{
	uint8_t c = p[0], low = 0x80, high = 0xbf;
	size_t len = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;

	if (len < 2 || len > n)
		return len > n ? 0 : len;
	if (c == 0xe0)
		low = 0xa0;
	else if (c == 0xed)
		high = 0x9f;
	else if (c == 0xf0)
		low = 0x90;
	else if (c == 0xf4)
		high = 0x8f;
	if (p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < len; i++)
		if (p[i] < 0x80 || p[i] > 0xbf)
			return 0;
	return len;
}

static int put_one(struct buf *b, const uint8_t *p, size_t n)
{
	char code[8];

	if (n == 0)
		return buf_put(b, "\xef\xbf\xbd", 3);
	if (n > 1 || (*p >= ' ' && *p != '"' && *p != '\\' && *p != 127))
		return buf_put(b, p, n);
	(void)snprintf(code, sizeof(code), "\\u%04x", *p);
	return buf_put(b, code, 6);
}

int text_put_json(struct buf *b, const char *p, size_t n)
{
	const uint8_t *s = (const uint8_t *)p;
	int r = buf_put(b, "\"", 1);

	while (n > 0 && r == 0) {
		size_t len = utf8(s, n), step = len > 0 ? len : 1;

		r = put_one(b, s, len);
		s += step;
		n -= step;
	}
	return r == 0 ? buf_put(b, "\"", 1) : r;
}

int text_put(struct buf *b, const char *s) { return buf_put(b, s, strlen(s)); }

int text_put_value(struct buf *b, json_t *o)
{
	char *s = o != NULL ? json_dumps(o, JSON_COMPACT) : NULL;
	int r = s != NULL ? text_put(b, s) : -ENOMEM;

	free(s);
	json_decref(o);
	return r;
}

int text_putf(struct buf *b, const char *fmt, ...)
{
	char line[256];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	return n < 0 || (size_t)n >= sizeof(line) ? -EMSGSIZE : buf_put(b, line, (size_t)n);
}

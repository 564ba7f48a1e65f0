#include "receipt/payload_priv.h"

#include "base/decimal.h"
#include "base/num.h"
#include "base/quote.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/*
 * A payload is some five hundred pieces. The C library's vsnprintf took 0.4 ms for them, three
 * times as long as all the rest of a receipt, so the few conversions that are needed are made here;
 * and a text goes through jansson only when there is something in it to escape.
 */

enum { STEP = 8192 };

struct payload payload_begin(struct buf *b) { return (struct payload){.b = b}; }

/* What was written so far is the buffer's. */
static void commit(struct payload *t)
{
	if (t->at != NULL)
		buf_commit(t->b, (size_t)(t->at - (const char *)buf_head(t->b)) - t->b->len);
	t->at = NULL;
	t->room = 0;
}

int payload_end(struct payload *t)
{
	commit(t);
	return t->err;
}

/* Room for n bytes, and as a rule for many after them. */
static bool make_room(struct payload *t, size_t n)
{
	size_t most;

	if (t->err != 0)
		return false;
	commit(t);
	most = buf_room(t->b);
	t->room = MIN(MAX(n, (size_t)STEP), most);
	if (n <= most)
		t->at = (char *)buf_reserve(t->b, t->room);
	if (t->at != NULL)
		return true;
	t->err = n > most ? -ENOBUFS : -ENOMEM;
	t->room = 0;
	return false;
}

/* Nothing, before anything else, has no place either. */
static bool has_room(struct payload *t, size_t n)
{
	return (n <= t->room || make_room(t, n)) && t->at != NULL;
}

void payload_put(struct payload *t, const char *s, size_t n)
{
	if (!has_room(t, n))
		return;
	memcpy(t->at, s, n);
	t->at += n;
	t->room -= n;
}

static void put_char(struct payload *t, char c)
{
	if (!has_room(t, 1))
		return;
	*t->at++ = c;
	t->room--;
}

static void put_decimal(struct payload *t, uint64_t v)
{
	char s[DECIMAL_MAX];
	size_t n = decimal_put(s, v, 1);

	payload_put(t, s, n);
}

static void put_signed(struct payload *t, int64_t v)
{
	if (v < 0)
		put_char(t, '-');
	put_decimal(t, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

/* mark: 0x before what is not 0, as printf(3) does for '#'. */
static void put_hex(struct payload *t, uint64_t v, bool mark)
{
	char s[16], *at = s + sizeof(s);

	if (mark && v != 0)
		payload_put(t, "0x", 2);
	do
		*--at = "0123456789abcdef"[v & 15];
	while ((v >>= 4) != 0);
	payload_put(t, at, (size_t)(s + sizeof(s) - at));
}

void payload_out(struct payload *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	for (; *fmt != '\0' && t->err == 0; fmt++) {
		bool mark, wide;
		const char *s;

		if (*fmt != '%') {
			put_char(t, *fmt);
			continue;
		}
		mark = fmt[1] == '#';
		fmt += mark;
		wide = fmt[1] == 'l';
		fmt += wide;
		switch (*++fmt) {
		case 's':
			s = va_arg(ap, const char *);
			payload_put(t, s, strlen(s));
			break;
		case 'c':
			put_char(t, (char)va_arg(ap, int));
			break;
		case 'd':
			put_signed(t, wide ? va_arg(ap, long) : va_arg(ap, int));
			break;
		case 'u':
			put_decimal(t, wide ? va_arg(ap, unsigned long) : va_arg(ap, unsigned));
			break;
		case 'x':
			put_hex(t, wide ? va_arg(ap, unsigned long) : va_arg(ap, unsigned), mark);
			break;
		default:
			t->err = -EINVAL;
			fmt--; /* it may be the end */
		}
	}
	va_end(ap);
}

/* Nothing that JSON escapes, and every byte a character. */
static bool is_plain(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c < 0x20 || c > 0x7e || c == '"' || c == '\\')
			return false;
	}
	return true;
}

void payload_json_n(struct payload *t, const char *s, size_t n)
{
	char q[QUOTE_MAX], *made;
	json_t *j;

	if (is_plain(s, n)) {
		payload_put(t, "\"", 1);
		payload_put(t, s, n);
		payload_put(t, "\"", 1);
		return;
	}
	j = json_stringn(s, n);
	if (j == NULL)
		j = json_string(quote_n(s, n, q));
	made = json_dumps(j, JSON_ENCODE_ANY | JSON_COMPACT);
	if (made == NULL)
		t->err = -ENOMEM;
	else
		payload_put(t, made, strlen(made));
	free(made);
	json_decref(j);
}

void payload_json(struct payload *t, const char *s)
{
	if (s == NULL)
		payload_put(t, "null", 4);
	else
		payload_json_n(t, s, strlen(s));
}

#include "parse/http_chunks.h"

#include "base/num.h"

#include <errno.h>
#include <string.h>

/* Sizes, extensions and trailers are whole lines; content is taken as it comes. */

enum { CHUNK_SIZE, CHUNK_DATA, CHUNK_END, CHUNK_TRAILER };

/* A whole line without its CR LF: its length, -EAGAIN = more is needed, -EBADMSG. */
static ssize_t line_size(const uint8_t *p, size_t n, size_t max)
{
	const uint8_t *nl = memchr(p, '\n', MIN(n, max + 2));
	size_t len = nl != NULL ? (size_t)(nl - p) : MIN(n, max + 2);

	for (size_t i = 0; i < len; i++)
		if ((p[i] < 0x20 && p[i] != '\t' && !(p[i] == '\r' && i + 1 == len)) ||
		    p[i] == 0x7f)
			return -EBADMSG;
	if (nl == NULL)
		return n >= max + 2 ? -EBADMSG : -EAGAIN;
	return len > 0 && p[len - 1] == '\r' ? (ssize_t)len - 1 : -EBADMSG;
}

static int take_size(struct http_chunks *c, const uint8_t *p, size_t n)
{
	size_t i = 0;

	c->left = 0;
	for (; i < n && hex_digit(p[i]) >= 0; i++)
		c->left = i < 15 ? c->left << 4 | (uint64_t)hex_digit(p[i]) : 0;
	if (i == 0 || i > 15 || (i < n && p[i] != ';'))
		return -EBADMSG;
	c->spent += (uint32_t)(n - i);
	c->state = c->left > 0 ? CHUNK_DATA : CHUNK_TRAILER;
	return c->spent > HTTP_TRAILER_MAX ? -EBADMSG : 0;
}

static int take_trailer(struct http_chunks *c, const uint8_t *p, size_t n)
{
	size_t k = http_token((const char *)p, n);

	c->done = n == 0;
	c->spent += (uint32_t)n;
	if (n > 0 && (k == 0 || k == n || p[k] != ':'))
		return -EBADMSG;
	return c->spent > HTTP_TRAILER_MAX ? -EBADMSG : 0;
}

ssize_t http_chunks_step(struct http_chunks *c, const uint8_t *p, size_t n, const uint8_t **data,
			 size_t *data_n)
{
	ssize_t len;
	int r;

	*data = p;
	*data_n = 0;
	if (n == 0 || c->done)
		return 0;
	switch (c->state) {
	case CHUNK_DATA:
		*data_n = (size_t)MIN((uint64_t)n, c->left);
		c->left -= *data_n;
		if (c->left == 0)
			c->state = CHUNK_END;
		return (ssize_t)*data_n;
	case CHUNK_END:
		if (p[0] != '\r' || (n > 1 && p[1] != '\n'))
			return -EBADMSG;
		if (n < 2)
			return 0;
		c->state = CHUNK_SIZE;
		return 2;
	default:
		len = line_size(p, n, c->state == CHUNK_SIZE ? HTTP_LINE_MAX : HTTP_TRAILER_MAX);
		if (len == -EAGAIN)
			return 0;
		if (len < 0)
			return len;
		r = c->state == CHUNK_SIZE ? take_size(c, p, (size_t)len)
					   : take_trailer(c, p, (size_t)len);
		return r < 0 ? r : len + 2;
	}
}

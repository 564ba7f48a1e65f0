/* Heads; the first byte picks request or response. What is accepted, written anew, reads the same;
 * and is not refused when less of it is there. */
#include "base/num.h"
#include "parse/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same(struct http_text a, struct http_text b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static void write_anew(const struct http_head *h, bool request, struct buf *b)
{
	char line[64];

	if (request) {
		(void)!buf_put(b, h->method.p, h->method.n);
		(void)!buf_put(b, " ", 1);
		(void)!buf_put(b, h->target.p, h->target.n);
		(void)snprintf(line, sizeof(line), " HTTP/1.%d\r\n", h->minor);
	} else {
		(void)snprintf(line, sizeof(line), "HTTP/1.%d %d \r\n", h->minor, h->status);
	}
	(void)!buf_put(b, line, strlen(line));
	for (uint32_t i = 0; i < h->fields_n; i++)
		if (http_put_field(b, h->field[i].name, h->field[i].value) < 0)
			abort();
	(void)!buf_put(b, "\r\n", 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct http_head h, again, part;
	const char *why = NULL;
	bool request;
	struct buf b;
	ssize_t n;

	if (size < 1)
		return 0;
	request = (data[0] & 1) != 0;
	n = http_parse(data + 1, size - 1, request, &h, &why);
	if (why == NULL || n > (ssize_t)(size - 1))
		abort();
	if (n <= 0)
		return 0;
	for (ssize_t cut = 0; cut < MIN(n, (ssize_t)200); cut++)
		if (http_parse(data + 1, (size_t)cut, request, &part, &why) != 0)
			abort();
	buf_init(&b, HTTP_HEAD_MAX * 2);
	write_anew(&h, request, &b);
	if (b.len <= HTTP_HEAD_MAX) {
		if (http_parse(buf_head(&b), b.len, request, &again, &why) != (ssize_t)b.len)
			abort();
		if (again.body != h.body || again.length != h.length || again.close != h.close ||
		    again.fields_n != h.fields_n || !same(again.target, h.target) ||
		    !same(again.host, h.host) || again.status != h.status || again.authority.n != 0)
			abort();
		for (uint32_t i = 0; i < h.fields_n; i++)
			if (!same(h.field[i].name, again.field[i].name) ||
			    !same(h.field[i].value, again.field[i].value))
				abort();
	}
	buf_done(&b);
	return 0;
}

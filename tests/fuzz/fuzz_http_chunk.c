/* A chunked body, whole and byte by byte: the same content or the same refusal; and written anew it
 * reads the same. */
#include "base/buf.h"
#include "parse/http_chunks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Decode with at most `step` new bytes a time. Returns -1 refused, 0 unfinished, 1 done. */
static int decode(const uint8_t *p, size_t n, size_t step, struct buf *out, size_t *ret_used)
{
	struct http_chunks c = {0};
	size_t at = 0, have = 0;

	for (;;) {
		const uint8_t *d;
		size_t d_n;
		ssize_t r = http_chunks_step(&c, p + at, have - at, &d, &d_n);

		if (r < 0)
			return -1;
		if (d_n > 0 && buf_put(out, d, d_n) < 0)
			abort();
		at += (size_t)r;
		*ret_used = at;
		if (c.done)
			return 1;
		if (r > 0)
			continue;
		if (have == n)
			return 0;
		have = n - have < step ? n : have + step;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf a, b, w;
	size_t used_a = 0, used_b = 0;
	int whole, bytes;

	if (size > 20000)
		return 0;
	buf_init(&a, size + 1);
	buf_init(&b, size + 1);
	buf_init(&w, size * 2 + 64);
	whole = decode(data, size, size, &a, &used_a);
	bytes = decode(data, size, 1, &b, &used_b);
	if (whole != bytes || a.len != b.len ||
	    (a.len > 0 && memcmp(buf_head(&a), buf_head(&b), a.len) != 0) ||
	    (whole == 1 && used_a != used_b))
		abort();
	if (whole == 1) {
		char line[32];

		buf_done(&b);
		buf_init(&b, size + 1);
		(void)snprintf(line, sizeof(line), "%zx\r\n", a.len);
		if (a.len > 0 &&
		    (buf_put(&w, line, strlen(line)) < 0 || buf_put(&w, buf_head(&a), a.len) < 0 ||
		     buf_put(&w, "\r\n", 2) < 0))
			abort();
		if (buf_put(&w, "0\r\n\r\n", 5) < 0 ||
		    decode(buf_head(&w), w.len, w.len, &b, &used_b) != 1 || b.len != a.len ||
		    (a.len > 0 && memcmp(buf_head(&a), buf_head(&b), a.len) != 0))
			abort();
	}
	buf_done(&a);
	buf_done(&b);
	buf_done(&w);
	return 0;
}

/* What a client's connection brings to a keeper, as far as it needs no sandbox: pieces, heads, and
 * the envelopes in their bodies. What was accepted is written again and must be the same. */
#include "wire/envelope.h"
#include "wire/call.h"

#include <stdlib.h>
#include <string.h>

static void envelopes(const uint8_t *p, size_t n)
{
	struct envelope e;
	int used;

	while ((used = envelope_next(p, n, 4096, &e)) > 0) {
		struct buf b = {.max = 8192};

		if ((size_t)used > n || e.n > 4096 || envelope_put(&b, e.flags, e.p, e.n) < 0 ||
		    b.len != (size_t)used || memcmp(buf_head(&b), p, b.len) != 0)
			abort();
		buf_done(&b);
		p += used;
		n -= (size_t)used;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct buf body = {.max = 1 << 20};
	struct call_piece c;
	struct call_head h;
	int used;

	while ((used = call_next(p, n, &c)) > 0) {
		if (c.kind == CALL_REQUEST && call_head(&c, &h) == 0 && h.target[0] != '/')
			abort();
		if (c.kind == CALL_BODY && buf_put(&body, c.p, c.n) < 0)
			break;
		if (c.kind == CALL_END)
			break;
		p += used;
		n -= (size_t)used;
	}
	envelopes(buf_head(&body), body.len);
	buf_done(&body);
	return 0;
}

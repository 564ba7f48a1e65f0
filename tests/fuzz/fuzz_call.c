/* call_next and call_head on arbitrary bytes: what they accept, call_put writes the same. */
#include "wire/call.h"

#include <stdlib.h>
#include <string.h>

static void again(const uint8_t *p, int used, const struct call_piece *c)
{
	struct buf b = {.max = CALL_HEADER + CALL_PIECE_MAX};
	struct call_head h;
	int ret;

	if (c->kind == CALL_BODY || c->kind == CALL_END)
		ret = call_put(&b, c->kind, c->p, c->n);
	else if (call_head(c, &h) < 0)
		return;
	else if (c->kind == CALL_REQUEST)
		ret = call_put_request(&b, h.method, h.target, h.field, h.fields_n);
	else
		ret = call_put_response(&b, h.status, h.field, h.fields_n);
	if (ret < 0 || b.len != (size_t)used || memcmp(buf_head(&b), p, b.len) != 0)
		abort();
	buf_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct call_piece c;
	int used;

	while ((used = call_next(p, n, &c)) > 0) {
		if ((size_t)used > n || (size_t)used != CALL_HEADER + c.n || c.p != p + CALL_HEADER)
			abort();
		again(p, used, &c);
		p += used;
		n -= (size_t)used;
	}
	return 0;
}

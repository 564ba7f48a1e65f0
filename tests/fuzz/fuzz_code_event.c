/* A line of a kernel's: what is taken is written as one line of ASCII, which is the same event
 * again. */
#include "keep/code_event.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	json_t *o = NULL, *again = NULL;
	struct buf b;
	int type = code_event(p, n, &o);

	if (type < 0)
		return 0;
	buf_init(&b, 64 * 1024 * 1024);
	if (code_event_put(&b, o) < 0)
		abort();
	for (size_t i = 0; i + 1 < b.len; i++)
		if (buf_head(&b)[i] < 0x20 || buf_head(&b)[i] > 0x7f)
			abort();
	if (code_event(buf_head(&b), b.len - 1, &again) != type || !json_equal(o, again))
		abort();
	json_decref(o);
	json_decref(again);
	buf_done(&b);
	return 0;
}

/* A moment of arbitrary bytes: what is accepted is written so that it reads the same. */
#include "parse/stamp.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	char *text = strndup((const char *)p, n), again[STAMP_SIZE];
	int64_t ms, same;

	/* outside these years no four digits tell it */
	if (stamp_read(text, &ms) == 0 && ms >= -INT64_C(62167219200000) && ms < INT64_C(253402300800000) &&
	    (stamp_read(stamp_ms(ms, again), &same) < 0 || same != ms))
		abort();
	free(text);
	return 0;
}

/* A target of arbitrary bytes: pairs stay inside it, and what is decoded fits and ends. */
#include "parse/uri.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	char *target = strndup((const char *)p, n), out[64];
	const char *q = uri_query(target), *end = target + strlen(target);
	struct uri_pair pair;
	int len;

	while (uri_next(&q, &pair)) {
		if (pair.name < target || pair.name + pair.name_n > end || pair.value < pair.name + pair.name_n ||
		    pair.value + pair.value_n > end)
			abort();
		len = uri_decode(pair.value, pair.value_n, true, out, sizeof(out));
		if (len >= 0 && ((size_t)len > pair.value_n || strlen(out) != (size_t)len))
			abort();
	}
	len = uri_get(uri_query(target), "path", out, 8);
	if (len >= 8)
		abort();
	free(target);
	return 0;
}

/* A subordinate id file, after a first line that is the user's name and a byte each of id and count. */
#include "parse/subid.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	const uint8_t *nl = memchr(p, '\n', n);
	uint32_t first = 0, uid, count;
	char *name;

	if (nl == NULL || nl - p < 2)
		return 0;
	uid = p[0] - 48u;
	count = 1u << (p[1] & 31);
	name = strndup((const char *)p + 2, (size_t)(nl - p) - 2);
	if (name == NULL)
		abort();
	n -= (size_t)(nl + 1 - p);
	/* a range never holds the real root and never wraps */
	if (subid_parse((const char *)nl + 1, n, name, uid, count, &first) == 0 &&
	    (first == 0 || UINT32_MAX - first < count))
		abort();
	if (subid_parse((const char *)nl + 1, n, NULL, uid, count, &first) == 0 && first == 0)
		abort();
	free(name);
	return 0;
}

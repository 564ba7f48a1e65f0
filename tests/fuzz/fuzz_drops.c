/* The kernel's reports of refused packets, whose bytes are a sandbox's. */
#include "gate/drops.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *p = NULL;
	size_t at = 0, n = 0, last = 0;
	struct drop d;

	(void)!drop_parse(data, size, &d);
	while (drop_next(data, size, &at, &p, &n) == 1) {
		if (p < data || n > size || (size_t)(p - data) > size - n || at <= last || at > size)
			abort();
		last = at;
		if (drop_parse(p, n, &d) == 0 && n < 20)
			abort();
	}
	return 0;
}

#include "net/ranges_priv.h"

#include <stdlib.h>
#include <string.h>

/* Ranges of addresses as nf_tables wants them: sorted, without overlap. Pure. */

size_t range_size(const struct net_range *r) { return r->v6 ? 16 : 4; }

static int by_first(const void *a, const void *b)
{
	const struct net_range *x = (const struct net_range *)a, *y = (const struct net_range *)b;

	if (x->v6 != y->v6)
		return x->v6 ? 1 : -1;
	return memcmp(x->first, y->first, range_size(x));
}

bool range_next(const uint8_t *a, size_t n, uint8_t *ret)
{
	memcpy(ret, a, n);
	while (n > 0)
		if (++ret[--n] != 0)
			return true;
	return false;
}

uint32_t ranges_join(struct net_range *r, uint32_t n)
{
	uint32_t out = 0;

	if (n > 0)
		qsort(r, n, sizeof(*r), by_first);
	for (uint32_t i = 0; i < n; i++) {
		struct net_range *last = out > 0 ? &r[out - 1] : NULL;
		uint8_t after[16];

		if (last != NULL && last->v6 == r[i].v6 &&
		    (!range_next(last->last, range_size(last), after) ||
		     memcmp(r[i].first, after, range_size(last)) <= 0)) {
			if (memcmp(r[i].last, last->last, range_size(last)) > 0)
				memcpy(last->last, r[i].last, sizeof(last->last));
		} else {
			r[out++] = r[i];
		}
	}
	return out;
}

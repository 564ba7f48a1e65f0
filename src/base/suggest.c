#include "base/suggest.h"
/*
 * Damerau-Levenshtein distance in its optimal string alignment form, on three rows. The words come
 * from the user; both are cut off by length before any work, so the cost is bounded.
 */
#include "base/num.h"

#include <string.h>

unsigned int suggest_distance(const char *a, const char *b)
{
	unsigned int rows[3][SUGGEST_LEN_MAX + 1];
	unsigned int *prev2 = rows[0], *prev = rows[1], *cur = rows[2], *t;
	size_t la = strnlen(a, SUGGEST_LEN_MAX + 1), lb = strnlen(b, SUGGEST_LEN_MAX + 1);

	if (la > SUGGEST_LEN_MAX || lb > SUGGEST_LEN_MAX)
		return SUGGEST_LEN_MAX + 1;
	memset(rows, 0, sizeof(rows));
	for (size_t j = 0; j <= lb; j++)
		prev[j] = (unsigned int)j;
	for (size_t i = 1; i <= la; i++) {
		cur[0] = (unsigned int)i;
		for (size_t j = 1; j <= lb; j++) {
			unsigned int v = prev[j - 1] + (a[i - 1] != b[j - 1]);

			v = MIN(v, prev[j] + 1);
			v = MIN(v, cur[j - 1] + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				v = MIN(v, prev2[j - 2] + 1);
			cur[j] = v;
		}
		t = prev2;
		prev2 = prev;
		prev = cur;
		cur = t;
	}
	return prev[lb];
}

void suggest_offer(struct suggest *s, const char *candidate)
{
	unsigned int d = suggest_distance(s->word, candidate);
	size_t longer = MAX(strlen(s->word), strlen(candidate));

	if (d > MAX(longer / 3, (size_t)1) || d >= longer)
		return;
	if (s->best == NULL || d < s->distance) {
		s->best = candidate;
		s->distance = d;
	}
}

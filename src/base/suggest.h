#pragma once
/* The known name nearest to a mistyped one, for "did you mean". Pure; bounded work. */
#include <stddef.h>

enum { SUGGEST_LEN_MAX = 48 }; /* longer names are never suggested nor corrected */

/* Edits (insert, delete, change, swap of neighbours) between two names; SUGGEST_LEN_MAX + 1 when
 * either is too long. */
unsigned int suggest_distance(const char *a, const char *b);

struct suggest {
	const char *word;
	const char *best; /* borrowed from what was offered; NULL = nothing near enough */
	unsigned int distance;
};
#define SUGGEST(w) ((struct suggest){.word = (w)})
/* Offer one candidate. It is near enough when at most a third of the longer name changes. */
void suggest_offer(struct suggest *s, const char *candidate);

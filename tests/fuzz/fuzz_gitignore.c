/* An ignore file and a path, divided by the first NUL byte; and both as a plain glob. */
#include "parse/gitignore.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	const uint8_t *nul = memchr(p, '\0', n);
	struct gitignore *g = NULL;
	size_t rules = nul != NULL ? (size_t)(nul - p) : n;
	char *path, *text;

	if (n > 8192)
		return 0;
	path = strndup(nul != NULL ? (const char *)nul + 1 : "a/b", nul != NULL ? n - rules - 1 : 3);
	text = strndup((const char *)p, rules);
	if (path == NULL || text == NULL)
		abort();
	if (gitignore_parse((const char *)p, rules, &g) == 0) {
		(void)gitignore_match(g, path, false);
		(void)gitignore_match(g, path, true);
		gitignore_free(g);
	}
	(void)gitignore_glob(text, path, true);
	(void)gitignore_glob(text, path, false);
	free(path);
	free(text);
	return 0;
}

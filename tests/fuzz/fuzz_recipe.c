/* A recipe: what is taken over can stand in a command line and in a file of sources. */
#include "image/recipe.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct recipe r;
	struct err e = ERR_INIT;

	if (recipe_load("fuzz", (const char *)data, size, &r, &e) < 0)
		return 0;
	if (r.suite == NULL || r.suite[0] == '-' || strpbrk(r.suite, " /\n'\"$") != NULL)
		abort();
	for (uint32_t i = 0; i < r.packages.n; i++)
		if (r.packages.v[i][0] == '-' || strpbrk(r.packages.v[i], " ,/\n'\"$") != NULL)
			abort();
	for (uint32_t i = 0; i < r.mirrors.n; i++)
		if (strncmp(r.mirrors.v[i], "http", 4) != 0 || strpbrk(r.mirrors.v[i], " \n'\"[]") != NULL)
			abort();
	recipe_done(&r);
	return 0;
}

/* A recipe: what is taken over can stand in a command line and in a file of sources. */
#include "image/recipe.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* No word is an option, and none holds what a shell, a list with commas or a line of sources would read. */
static void plain(const struct strv *v, const char *never)
{
	for (uint32_t i = 0; i < v->n; i++)
		if (v->v[i][0] == '-' || v->v[i][0] == '\0' || strpbrk(v->v[i], never) != NULL)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct recipe r;
	struct err e = ERR_INIT;

	if (recipe_load("fuzz", (const char *)data, size, &r, &e) < 0) {
		if (e.msg[0] == '\0' || strpbrk(e.msg, "\033\n") != NULL || strncmp(e.msg, "fuzz:", 5) != 0)
			abort();
		return 0;
	}
	if (r.suite == NULL || r.suite[0] == '-' || strpbrk(r.suite, " /\n'\"$") != NULL || r.line[RECIPE_SUITE] < 1)
		abort();
	plain(&r.packages, " ,/\n'\"$;");
	plain(&r.without, " ,/\n'\"$;=");
	plain(&r.mirrors, "\n'\"[]#");
	for (uint32_t i = 0; i < r.packages.n; i++)
		if (r.package_line[i] < r.line[RECIPE_PACKAGES])
			abort();
	for (uint32_t i = 0; i < r.mirrors.n; i++)
		if (strncmp(r.mirrors.v[i], "http", 4) != 0)
			abort();
	if ((r.workdir != NULL && (r.workdir[0] != '/' || strstr(r.workdir, "..") == r.workdir + 1)) ||
	    (r.user != NULL && strpbrk(r.user, ":/\n $") != NULL) ||
	    (r.snapshot != NULL && (strlen(r.snapshot) != 16 || r.mirrors.n > 0)))
		abort();
	recipe_done(&r);
	return 0;
}

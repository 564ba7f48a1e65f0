/* Every reader of base/units.h on one text; what a reader takes, its printer must write back. */
#include "base/units.h"

#include <stdlib.h>
#include <string.h>

static void check(int r, const struct err *e)
{
	if ((r < 0) != (e->kind != ERR_NONE) || strchr(e->msg, '\033') != NULL)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	char *s = malloc(n + 1), t[UNITS_TEXT];
	struct err e[4] = {ERR_INIT, ERR_INIT, ERR_INIT, ERR_INIT};
	uint64_t v = 0, again = 0;
	uint32_t cpus = 0;
	int r;

	if (s == NULL)
		return 0;
	memcpy(s, p, n);
	s[n] = '\0';
	check(units_size(s, &v, &e[0]), &e[0]);
	check(units_cpus(s, &cpus, &e[1]), &e[1]);
	check(units_count(s, 1000000, &v, &e[2]), &e[2]);
	if (e[2].kind == ERR_NONE && v > 1000000)
		abort();
	r = units_duration(s, &v, &e[3]);
	check(r, &e[3]);
	if (r == 0 && (units_duration(units_duration_text(v, t), &again, NULL) < 0 || again != v))
		abort();
	free(s);
	return 0;
}

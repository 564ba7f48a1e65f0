/* profile_load on arbitrary bytes, and spec_check on what it makes of them. */
#include "core/profile.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct profile profile = {.name = NULL};
	struct err e = ERR_INIT;
	struct spec s;
	int r;

	spec_init(&s);
	r = profile_load("fuzz.yaml", (const char *)p, n, &s, &profile, &e);
	if (r < 0 && (e.msg[0] == '\0' || strchr(e.msg, '\033') != NULL || strchr(e.msg, '\n') != NULL))
		abort();
	if (r == 0 && !profile_has(&profile, PROFILE_VERSION))
		abort();
	if (r == 0 && spec_check(&s, &e) == 0 && (s.disk == 0 || s.tier == NULL))
		abort();
	spec_done(&s);
	profile_done(&profile);
	return 0;
}

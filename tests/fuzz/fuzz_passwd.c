/* The sandbox's passwd and group files, and a /proc stat line: all chosen by hostile programs. */
#include "base/num.h"
#include "guest/sweep.h"
#include "parse/user.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void check(const struct user *u)
{
	if (u->uid == UINT32_MAX || u->gid == UINT32_MAX || u->home[0] != '/' || u->shell[0] != '/' ||
	    u->groups_n > USER_GROUPS_MAX || strlen(u->name) >= USER_STR_MAX)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	const char *text = (const char *)p;
	char name[USER_STR_MAX];
	struct sweep_proc proc;
	struct user u;
	size_t spec;

	if (n == 0)
		return 0;
	spec = MIN((size_t)p[0] % 24, n - 1);
	if (user_find(text + 1, spec, text + 1 + spec, n - 1 - spec, &u) == 0) {
		check(&u);
		user_groups(text + 1, n - 1, &u);
		check(&u);
	}
	if (user_find("root", 4, text, n, &u) == 0)
		check(&u);
	user_name_of(text, n, 1000, name);
	if (sweep_parse_stat(text, n, &proc) && proc.ppid < 0)
		abort();
	return 0;
}

#include "base/suggest.h"
#include "harness/test.h"

#include <string.h>

TEST(distances)
{
	CHECK(suggest_distance("", "") == 0);
	CHECK(suggest_distance("abc", "abc") == 0);
	CHECK(suggest_distance("", "abc") == 3);
	CHECK(suggest_distance("memroy", "memory") == 1); /* neighbours swapped: one edit */
	CHECK(suggest_distance("kitten", "sitting") == 3);
	CHECK(suggest_distance("ab", "ba") == suggest_distance("ba", "ab"));
}

TEST(too_long_is_never_near)
{
	char a[200];

	memset(a, 'a', sizeof(a) - 1);
	a[sizeof(a) - 1] = '\0';
	CHECK(suggest_distance(a, a) == SUGGEST_LEN_MAX + 1);
	a[SUGGEST_LEN_MAX] = '\0';
	CHECK(suggest_distance(a, a) == 0);
}

static const char *nearest(const char *word)
{
	static const char *const names[] = {"memory", "timeout", "env", "pids", "tier"};
	struct suggest s = SUGGEST(word);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		suggest_offer(&s, names[i]);
	return s.best;
}

TEST(nearest_or_none)
{
	CHECK(nearest("memroy") != NULL && strcmp(nearest("memroy"), "memory") == 0);
	CHECK(nearest("timout") != NULL && strcmp(nearest("timout"), "timeout") == 0);
	CHECK(nearest("evn") != NULL && strcmp(nearest("evn"), "env") == 0);
	CHECK(nearest("banana") == NULL);
	CHECK(nearest("x") == NULL);
	CHECK(nearest("") == NULL);
}
TEST_MAIN()

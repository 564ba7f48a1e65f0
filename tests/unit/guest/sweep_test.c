#include "guest/sweep.h"
#include "harness/test.h"

#include <string.h>

TEST(stat_lines)
{
	struct sweep_proc p = {0};
	static const char *const good = "7 (a) S 42 7 7 0 -1", *const nasty = "7 (x) R 1 (y)) Z 9 7 7";
	static const char *const bad[] = {"", ")", "7 (a)", "7 (a) ", "7 (a) S", "7 (a) S ", "7 (a) S 4", "7 (a)S 4 x"};

	CHECK(sweep_parse_stat(good, strlen(good), &p) && p.ppid == 42 && p.state == 'S');
	CHECK(sweep_parse_stat(nasty, strlen(nasty), &p) && p.ppid == 9 && p.state == 'Z');
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!sweep_parse_stat(bad[i], strlen(bad[i]), &p));
}

/* 1 -> guards 10 and 20; 10 -> 11 -> 12; 20 -> 21; 1 -> orphan 30 -> 31; 1 -> worker 40 */
static void fill(struct sweep_proc v[10])
{
	static const struct sweep_proc all[] = {
		{1, 0, 'S', 0},	 {10, 1, 'S', 0}, {11, 10, 'S', 0}, {12, 11, 'Z', 0}, {20, 1, 'S', 0},
		{21, 20, 'R', 0}, {30, 1, 'S', 0}, {31, 30, 'T', 0}, {40, 1, 'S', 0},  {50, 49, 'S', 0},
	};

	memcpy(v, all, sizeof(all));
}

static bool marks(const struct sweep *s, const char *want)
{
	struct sweep_proc v[10];

	fill(v);
	(void)sweep_mark(s, v, 10);
	for (int i = 0; i < 10; i++) {
		if (v[i].marked != (want[i] == 'x'))
			return false;
	}
	return true;
}

TEST(who_is_meant)
{
	static const pid_t known[] = {10, 20, 40};
	struct sweep_proc v[10];

	CHECK(marks(&(struct sweep){.guard = 10}, "..xx......"));
	CHECK(marks(&(struct sweep){.tree = 20}, "....xx...."));
	CHECK(marks(&(struct sweep){.orphans = true, .known = known, .known_n = 3}, "......xx.."));
	CHECK(marks(&(struct sweep){.tree = 0}, ".........."));
	fill(v);
	CHECK(sweep_mark(&(struct sweep){.guard = 10}, v, 10) == 1);
}

TEST(loops_of_parents_end)
{
	struct sweep_proc v[] = {{5, 6, 'S', 0}, {6, 5, 'S', 0}};

	CHECK(sweep_mark(&(struct sweep){.guard = 10}, v, 2) == 0);
}
TEST_MAIN()

#include "cli/bench_priv.h"
#include "harness/test.h"

static bool near(double a, double b) { return a - b < 1e-9 && b - a < 1e-9; }

TEST(missing_samples_are_left_out)
{
	const uint64_t v[] = {0, 5, 0, 1, 3};
	struct bench_stat s = bench_stat(v, 5);

	CHECK(s.n == 3 && s.min == 1 && s.median == 3 && s.p95 == 5);
}

TEST(even_count_takes_the_middle_of_two)
{
	const uint64_t v[] = {40, 10, 20, 30};

	CHECK(bench_stat(v, 4).median == 25);
}

TEST(p95_is_the_nearest_rank)
{
	uint64_t v[100];

	for (uint64_t i = 0; i < 100; i++)
		v[i] = 100 - i;
	CHECK(bench_stat(v, 100).p95 == 95);
	CHECK(bench_stat(v, 1).p95 == 100);
}

TEST(nothing_gives_nothing)
{
	const uint64_t zero[] = {0, 0};

	CHECK(bench_stat(zero, 2).n == 0);
	CHECK(bench_stat(NULL, 0).n == 0);
	CHECK(near(bench_pair_ratio(zero, zero, 2), 0));
	CHECK(near(bench_pair_ratio(NULL, NULL, 0), 0));
}

TEST(pairs_are_of_the_same_round)
{
	const uint64_t a[] = {2, 0, 9, 8}, b[] = {4, 7, 3, 8};

	double added = -1;

	CHECK(near(bench_pair_ratio(a, b, 4), 1.0)); /* 0.5, -, 3, 1 */
	CHECK(bench_pair_added(a, b, 4, &added) && near(added, 0)); /* -2, -, 6, 0 */
	CHECK(bench_pair_added(a, b, 2, &added) && near(added, -2));
	CHECK(!bench_pair_added(a + 1, b + 1, 1, &added) && near(added, 0));
}

TEST_MAIN()

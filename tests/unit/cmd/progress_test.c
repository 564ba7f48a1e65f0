#include "cmd/progress.h"
#include "harness/test.h"

TEST(nothing_is_due_where_nobody_looks)
{
	struct progress p = {.on = false};

	progress_begin(&p, "copying in", 5);
	CHECK(progress_wait(&p, 1000000) == -1);
}

TEST(first_after_a_second_then_four_times_a_second)
{
	struct progress p = {.on = true};

	CHECK(progress_wait(&p, 0) == -1);
	progress_begin(&p, "copying in", 100);
	CHECK(progress_wait(&p, 100) == 1000);
	CHECK(progress_wait(&p, 1099) == 1);
	progress_show(&p, 1099, 7, false);
	CHECK(p.bytes != 7);
	CHECK(progress_wait(&p, 1100) == 0);
	p.bytes = 7; /* shown already: the test's own standard error stays clean */
	progress_show(&p, 1100, 7, false);
	CHECK(progress_wait(&p, 1100) == 250);
	progress_end(&p);
	CHECK(progress_wait(&p, 5000) == -1);
}
TEST_MAIN()

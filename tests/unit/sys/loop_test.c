#include "sys/loop.h"

#include "harness/test.h"

#include <string.h>

enum { SIZE = 64 };

TEST(a_spare_block_is_kept_and_comes_back_cleared)
{
	struct spares s = {.max = 1};
	struct loop l;
	uint8_t zero[SIZE] = {0};
	void *a = loop_spare(&s, SIZE), *b = loop_spare(&s, SIZE), *c;

	CHECK(loop_open(&l) == 0);
	CHECK(a != NULL && b != NULL && a != b);
	memset(a, 0xff, SIZE);
	memset(b, 0xff, SIZE);
	loop_spare_later(&l, &s, a);
	loop_spare_later(&l, &s, b);
	CHECK(s.n == 0); /* not before the events are through */
	loop_turn(&l, 0);
	CHECK(s.n == 1); /* no more than max */
	c = loop_spare(&s, SIZE);
	CHECK(s.n == 0 && (c == a || c == b) && memcmp(c, zero, SIZE) == 0);
	loop_spare_later(&l, &s, c);
	loop_turn(&l, 0);
	loop_turn(&l, 0);
	CHECK(s.n == 1 && loop_spare(&s, SIZE) == c);
	loop_free_later(&l, c);
	loop_turn(&l, 0);
	loop_close(&l);
}

TEST(spares_of_two_sizes_do_not_mix)
{
	struct spares small = {.max = 4}, large = {.max = 4};
	struct loop l;
	void *a = loop_spare(&small, SIZE), *b = loop_spare(&large, SIZE * (size_t)4);

	CHECK(loop_open(&l) == 0);
	loop_spare_later(&l, &small, a);
	loop_spare_later(&l, &large, b);
	loop_turn(&l, 0);
	CHECK(small.n == 1 && large.n == 1);
	CHECK(loop_spare(&large, SIZE * (size_t)4) == b && loop_spare(&small, SIZE) == a);
	loop_free_later(&l, a);
	loop_free_later(&l, b);
	loop_turn(&l, 0);
	loop_close(&l);
}

TEST_MAIN()

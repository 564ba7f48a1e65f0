#include "guest/credit.h"
#include "harness/test.h"
#include "wire/frame.h"

#include <errno.h>
#include <stdlib.h>

TEST(credit_has_a_ceiling)
{
	uint32_t c = FRAME_WINDOW;

	CHECK(credit_add(&c, FRAME_CREDIT_MAX - FRAME_WINDOW) == 0);
	CHECK(c == FRAME_CREDIT_MAX);
	CHECK(credit_add(&c, 1) == -EPROTO);
	CHECK(credit_add(&c, UINT32_MAX) == -EPROTO);
	CHECK(c == FRAME_CREDIT_MAX);
}

TEST(window_ends_where_it_was_granted)
{
	struct window w;

	window_init(&w);
	CHECK(window_take(&w, FRAME_WINDOW) == 0);
	CHECK(window_take(&w, 1) == -EPROTO);
	CHECK(window_give(&w, 1) == 0);
	CHECK(window_take(&w, 1) == -EPROTO);
}

/* A host that sends whatever it may, and a program that reads at random: nobody starves, and what is in
 * our hands never exceeds the window. */
TEST(window_never_starves_nor_grows)
{
	struct window w;
	uint32_t host = FRAME_WINDOW, held = 0;
	unsigned short seed[3] = {1, 2, 3};
	uint64_t moved = 0;

	window_init(&w);
	for (int i = 0; i < 200000; i++) {
		uint32_t n = (uint32_t)nrand48(seed) % 70000;

		if (nrand48(seed) & 1) {
			n = n > host ? host : n;
			CHECK(window_take(&w, n) == 0);
			host -= n;
			held += n;
		} else {
			n = n > held ? held : n;
			held -= n;
			moved += n;
			host += window_give(&w, n);
		}
		CHECK(held <= FRAME_WINDOW && host == w.left);
		CHECK(w.left + w.owed + held == FRAME_WINDOW);
		CHECK(host > 0 || held > 0);
	}
	CHECK(moved > 100 * (uint64_t)FRAME_WINDOW);
}
TEST_MAIN()

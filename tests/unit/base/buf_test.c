#include "base/buf.h"

#include "base/num.h"
#include "harness/test.h"

#include <errno.h>
#include <string.h>

TEST(bytes_come_out_in_order)
{
	struct buf b;

	buf_init(&b, 10);
	CHECK(buf_put(&b, "abc", 3) == 0 && buf_put(&b, "de", 2) == 0 && b.len == 5);
	CHECK(memcmp(buf_head(&b), "abcde", 5) == 0 && buf_room(&b) == 5);
	buf_consume(&b, 2);
	CHECK(b.len == 3 && memcmp(buf_head(&b), "cde", 3) == 0 && buf_room(&b) == 7);
	buf_consume(&b, 3);
	CHECK(b.len == 0 && buf_room(&b) == 10);
	buf_done(&b);
}

TEST(the_maximum_holds)
{
	struct buf b;

	buf_init(&b, 4);
	CHECK(buf_put(&b, "abcde", 5) == -ENOBUFS && b.len == 0);
	CHECK(buf_put(&b, "abcd", 4) == 0);
	CHECK(buf_put(&b, "e", 1) == -ENOBUFS && b.len == 4);
	CHECK(buf_reserve(&b, 1) == NULL && buf_reserve(&b, SIZE_MAX) == NULL);
	CHECK(buf_reserve(&b, 0) != NULL);
	buf_consume(&b, 1);
	CHECK(buf_put(&b, "e", 1) == 0 && memcmp(buf_head(&b), "bcde", 4) == 0);
	buf_done(&b);
	CHECK(b.max == 4 && b.data == NULL && buf_put(&b, "x", 1) == 0);
	buf_done(&b);
}

TEST(consuming_too_much_empties)
{
	struct buf b = {.max = 10};

	CHECK(buf_put(&b, "abc", 3) == 0);
	buf_consume(&b, 100);
	CHECK(b.len == 0 && b.off == 0);
	buf_done(&b);
}

/* A long random run against a plain array. */
TEST(random_model)
{
	enum { MAX = 20000 };
	static uint8_t model[MAX], chunk[MAX];
	struct buf b;
	uint64_t x = 88172645463325252u;
	size_t have = 0;
	uint8_t next = 0;

	buf_init(&b, MAX);
	for (int i = 0; i < 200000; i++) {
		size_t n;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		n = (size_t)(x >> 8) % (x % 16 == 0 ? MAX : 300);
		if (x & 1) {
			for (size_t k = 0; k < n; k++)
				chunk[k] = next++;
			if (n > MAX - have) {
				CHECK(buf_put(&b, chunk, n) == -ENOBUFS);
			} else {
				CHECK(buf_put(&b, chunk, n) == 0);
				memcpy(model + have, chunk, n);
				have += n;
			}
		} else {
			n = MIN(n, have);
			buf_consume(&b, n);
			memmove(model, model + n, have - n);
			have -= n;
		}
		CHECK(b.len == have && buf_room(&b) == MAX - have);
		CHECK(have == 0 || memcmp(buf_head(&b), model, have) == 0);
		CHECK(b.cap <= 2 * 32768);
	}
	buf_done(&b);
}
TEST_MAIN()

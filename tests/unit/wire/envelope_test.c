#include "wire/envelope.h"

#include "harness/test.h"

#include <errno.h>
#include <string.h>

TEST(an_envelope_comes_back)
{
	struct buf b = {.max = 64};
	struct envelope e;

	CHECK(envelope_put(&b, ENVELOPE_END, "{}", 2) == 0 && b.len == 7);
	CHECK(memcmp(buf_head(&b), "\2\0\0\0\2{}", 7) == 0);
	for (size_t n = 0; n < 7; n++)
		CHECK(envelope_next(buf_head(&b), n, 100, &e) == 0);
	CHECK(envelope_next(buf_head(&b), 7, 100, &e) == 7);
	CHECK(e.flags == ENVELOPE_END && e.n == 2 && memcmp(e.p, "{}", 2) == 0);
	CHECK(envelope_put(&b, 0, NULL, 58) == -ENOBUFS);
	buf_done(&b);
}

TEST(what_is_refused)
{
	struct envelope e;

	CHECK(envelope_next("\1\0\0\0\0", 5, 100, &e) == -EPROTO);
	CHECK(envelope_next("\x80", 1, 100, &e) == -EPROTO);
	CHECK(envelope_next("\0\0\0\0\x65", 5, 100, &e) == -EMSGSIZE);
	CHECK(envelope_next("\0\xff\xff\xff\xff", 5, UINT32_MAX, &e) == -EMSGSIZE);
	CHECK(envelope_next("\0\0\0\0\0", 5, 0, &e) == 5 && e.n == 0);
}

TEST_MAIN()

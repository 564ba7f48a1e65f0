/* What the host expects is read as it was written, and refused with anything in it that cannot be. */
#include "harness/test.h"
#include "wire/probe_expect.h"

#include <errno.h>
#include <string.h>

static struct probe_expect x, got;

static void fresh(void)
{
	memset(&x, 0, sizeof(x));
	x.version = PROBE_VERSION;
	x.flags = EXPECT_FLAGS;
	x.ns[PROBE_NS_net] = UINT64_MAX;
	memset(x.release, 'r', sizeof(x.release) - 1);
}

TEST(what_was_sent_is_read)
{
	uint8_t at[sizeof(x) + 1]; /* anywhere */

	fresh();
	memcpy(at + 1, &x, sizeof(x));
	CHECK(probe_expect_read(at + 1, sizeof(x), &got) == 0 && memcmp(&x, &got, sizeof(x)) == 0);
}

TEST(what_cannot_be_is_refused)
{
	fresh();
	for (size_t n = 0; n < sizeof(x); n++)
		CHECK(probe_expect_read(&x, n, &got) == -EPROTO);
	CHECK(probe_expect_read(NULL, 0, &got) == -EPROTO);
	x.version++;
	CHECK(probe_expect_read(&x, sizeof(x), &got) == -EPROTO);
	fresh();
	x.flags = EXPECT_FLAGS + 1;
	CHECK(probe_expect_read(&x, sizeof(x), &got) == -EPROTO);
	for (int i = 0; i < 3; i++) {
		fresh();
		memset(i == 0 ? x.release : i == 1 ? x.node : x.agent, 'x', PROBE_TEXT);
		CHECK(probe_expect_read(&x, sizeof(x), &got) == -EPROTO);
	}
}

TEST_MAIN()

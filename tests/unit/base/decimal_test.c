#include "base/decimal.h"
#include "harness/test.h"

#include <stdbool.h>

static bool is(uint64_t v, size_t width, const char *want)
{
	char s[DECIMAL_MAX];
	size_t n = decimal_put(s, v, width);

	return n == strlen(want) && memcmp(s, want, n) == 0;
}

TEST(numbers)
{
	CHECK(is(0, 0, "0") && is(0, 1, "0") && is(7, 1, "7") && is(10, 1, "10"));
	CHECK(is(UINT64_MAX, 1, "18446744073709551615") && is(UINT64_MAX, 30, "18446744073709551615"));
}

TEST(zeros_in_front)
{
	CHECK(is(7, 3, "007") && is(1234, 3, "1234") && is(0, 4, "0000"));
	CHECK(is(1, 20, "00000000000000000001") && is(1, 99, "00000000000000000001"));
}

TEST_MAIN()

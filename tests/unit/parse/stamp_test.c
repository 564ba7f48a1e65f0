#include "parse/stamp.h"

#include "base/num.h"
#include "harness/test.h"

#include <errno.h>
#include <string.h>

TEST(written)
{
	char t[STAMP_SIZE];

	CHECK(strcmp(stamp_text(0, 0, 0, t), "1970-01-01T00:00:00Z") == 0);
	CHECK(strcmp(stamp_text(1796074715, 123456789, 0, t), "2026-11-30T21:38:35Z") == 0);
	CHECK(strcmp(stamp_text(1796074715, 123456789, 3, t), "2026-11-30T21:38:35.123Z") == 0);
	CHECK(strcmp(stamp_text(1796074715, 7, 9, t), "2026-11-30T21:38:35.000000007Z") == 0);
	CHECK(strcmp(stamp_text(INT64_MAX, 0, 0, t), "1970-01-01T00:00:00Z") == 0);
	CHECK(strcmp(stamp_text(-INT64_C(62167219200), 0, 1, t), "0000-01-01T00:00:00.0Z") == 0);
	CHECK(strcmp(stamp_text(INT64_C(253402300799), 0, 0, t), "9999-12-31T23:59:59Z") == 0);
	CHECK(strcmp(stamp_ms(1796074715123, t), "2026-11-30T21:38:35.123Z") == 0);
	CHECK(strcmp(stamp_ms(-1, t), "1969-12-31T23:59:59.999Z") == 0);
}

static int64_t read_ms(const char *text)
{
	int64_t ms = -1;

	return stamp_read(text, &ms) == 0 ? ms : INT64_MIN;
}

TEST(read)
{
	CHECK(read_ms("1970-01-01T00:00:00Z") == 0 && read_ms("1970-01-01T00:00:01.5z") == 1500);
	CHECK(read_ms("2026-11-30T21:38:35.123999Z") == 1796074715123);
	CHECK(read_ms("2026-11-30T22:38:35+01:00") == 1796074715000 && read_ms("2026-11-30T20:08:35-01:30") == 1796074715000);
	CHECK(read_ms("2024-02-29T00:00:00Z") > 0 && read_ms("2016-12-31T23:59:60Z") == read_ms("2016-12-31T23:59:59.999Z"));
	CHECK(read_ms("1969-12-31T23:59:59.999Z") == -1);
}

TEST(refused)
{
	static const char *const bad[] = {
	    "", "x", "2026-11-30", "2026-11-30T21:38:35", "2026-11-30 21:38:35Z", "2026-1-30T21:38:35Z", " 2026-11-30T21:38:35Z",
	    "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-02-30T00:00:00Z", "2023-02-29T00:00:00Z", "2026-11-00T00:00:00Z",
	    "2026-11-30T24:00:00Z", "2026-11-30T21:60:00Z", "2026-11-30T21:38:61Z", "2026-11-30T21:38:35Zx", "2026-11-30T21:38:35+01:00x",
	    "2026-11-30T21:38:35+0100", "2026-11-30T21:38:35+24:00", "2026-11-30T21:38:35*01:00", "2026-11-30T21:38:35.12", "+026-11-30T21:38:35Z",
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK(read_ms(bad[i]) == INT64_MIN);
}
TEST_MAIN()

#include "keep/files.h"

#include "harness/test.h"

#include <string.h>

TEST(ranges)
{
	static const struct {
		const char *field;
		enum files_range want;
		uint64_t first, n;
	} v[] = {
	    {"bytes=0-0", RANGE_OK, 0, 1},
	    {"bytes=2-", RANGE_OK, 2, 8},
	    {"bytes=2-99", RANGE_OK, 2, 8},
	    {"bytes=-1", RANGE_OK, 9, 1},
	    {"bytes=-11", RANGE_OK, 0, 10},
	    {"bytes=10-", RANGE_UNMET, 0, 0},
	    {"bytes=-0", RANGE_UNMET, 0, 0},
	    {"bytes=3-2", RANGE_NONE, 0, 0},
	    {"bytes=0-1,3-4", RANGE_NONE, 0, 0},
	    {"bytes=-", RANGE_NONE, 0, 0},
	    {"bytes=", RANGE_NONE, 0, 0},
	    {"chars=1-2", RANGE_NONE, 0, 0},
	    {"bytes=1-18446744073709551616", RANGE_NONE, 0, 0},
	    {NULL, RANGE_NONE, 0, 0},
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(*v); i++) {
		uint64_t first = 0, n = 0;

		CHECK(files_range(v[i].field, 10, &first, &n) == v[i].want);
		CHECK(v[i].want != RANGE_OK || (first == v[i].first && n == v[i].n));
	}
}

TEST(dates_both_ways)
{
	char s[FILES_DATE];
	time_t t = 0;

	files_date(784111777, s);
	CHECK(strcmp(s, "Sun, 06 Nov 1994 08:49:37 GMT") == 0);
	CHECK(files_date_read(s, &t) && t == 784111777);
	CHECK(!files_date_read("Sunday, 06-Nov-94 08:49:37 GMT", &t) && !files_date_read("", &t));
}

TEST(names_in_a_field)
{
	char s[FILES_DISPOSITION];

	files_disposition("/a/b c.txt", s, sizeof(s));
	CHECK(strcmp(s, "inline; filename=\"b c.txt\"") == 0);
	files_disposition("/a/\"\n\xc3\xbc", s, sizeof(s));
	CHECK(strcmp(s, "inline; filename*=UTF-8''%22%0A%C3%BC") == 0);
}

TEST_MAIN()

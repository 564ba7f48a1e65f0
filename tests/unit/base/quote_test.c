#include "base/quote.h"
#include "base/base64.h"
#include "harness/test.h"

#include <stdlib.h>
#include <string.h>

TEST(plain_and_escaped)
{
	char q[QUOTE_MAX];

	CHECK(strcmp(quote("abc d", q), "'abc d'") == 0);
	CHECK(strcmp(quote("a\033[31m", q), "'a\\x1b[31m'") == 0);
	CHECK(strcmp(quote("it's", q), "'it\\x27s'") == 0);
	CHECK(strcmp(quote("a\\n\n", q), "'a\\x5cn\\x0a'") == 0);
	CHECK(strcmp(quote("\xc3\xa9", q), "'\\xc3\\xa9'") == 0);
	CHECK(strcmp(quote_bare("it's\t", q), "it's\\x09") == 0);
	CHECK(strcmp(quote_n("abcdef", 3, q), "'abc'") == 0);
}

TEST(long_text_is_cut_and_fits)
{
	char big[500], q[QUOTE_MAX + 8];

	for (int c = 1; c < 256; c += 127) {
		memset(q, 'Z', sizeof(q));
		memset(big, c, sizeof(big) - 1);
		big[sizeof(big) - 1] = '\0';
		(void)quote(big, q);
		CHECK(strlen(q) < QUOTE_MAX);
		CHECK(strcmp(q + strlen(q) - 4, "...'") == 0);
		CHECK(q[QUOTE_MAX] == 'Z');
	}
}

TEST(base64_of_rfc4648)
{
	static const char *const rows[][2] = {{"", ""},         {"f", "Zg=="},     {"fo", "Zm8="},
					      {"foo", "Zm9v"}, {"foob", "Zm9vYg=="},
					      {"foobar", "Zm9vYmFy"}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *t = base64_encode(rows[i][0], strlen(rows[i][0]));
		int same = t != NULL && strcmp(t, rows[i][1]) == 0;

		free(t);
		CHECK(same);
	}
}
TEST_MAIN()

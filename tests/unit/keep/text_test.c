#include "keep/text.h"

#include "harness/test.h"

#include <errno.h>
#include <string.h>

static bool holds(const struct buf *b, const char *want)
{
	return b->len == strlen(want) && memcmp(buf_head(b), want, b->len) == 0;
}

TEST(values)
{
	struct buf b;

	buf_init(&b, 64);
	CHECK(text_put_value(&b, json_pack("{s:i, s:[s]}", "a", 1, "b", "\xc3\xbc")) == 0);
	CHECK(holds(&b, "{\"a\":1,\"b\":[\"\xc3\xbc\"]}"));
	CHECK(text_put_value(&b, NULL) == -ENOMEM);
	CHECK(text_put_value(&b, json_pack("[s]", "01234567890123456789012345678901234567890123456789")) == -ENOBUFS);
	CHECK(holds(&b, "{\"a\":1,\"b\":[\"\xc3\xbc\"]}")); /* as it was */
	buf_done(&b);
}

TEST(names_of_any_bytes)
{
	struct buf b;

	buf_init(&b, 256);
	CHECK(text_put_json(&b, "a\"\\\n\xff\xc3\xbc", 7) == 0);
	CHECK(holds(&b, "\"a\\u0022\\u005c\\u000a\xef\xbf\xbd\xc3\xbc\""));
	buf_done(&b);
}

TEST_MAIN()

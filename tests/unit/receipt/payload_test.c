/* The payload's writer says what printf(3) and jansson would. */
#include "harness/test.h"
#include "receipt/payload_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool holds(struct buf *b, const char *want)
{
	return b->len == strlen(want) && (b->len == 0 || memcmp(buf_head(b), want, b->len) == 0);
}

#define SAME(...)                                                                                  \
	do {                                                                                       \
		struct buf b;                                                                      \
		struct payload t;                                                                  \
		char want[256];                                                                    \
                                                                                                   \
		buf_init(&b, 4096);                                                                \
		t = payload_begin(&b);                                                             \
		payload_out(&t, __VA_ARGS__);                                                      \
		(void)snprintf(want, sizeof(want), __VA_ARGS__);                                   \
		CHECK(payload_end(&t) == 0 && holds(&b, want));                                    \
		buf_done(&b);                                                                      \
	} while (0)

TEST(formats_as_printf_does)
{
	SAME("plain, with \"marks\"");
	SAME("%s", "");
	SAME("%s|%c|%s", "a b", 'c', "d");
	SAME("%u %u %u", 0u, 9u, UINT32_MAX);
	SAME("%d %d %d", 0, -1, INT_MIN);
	SAME("%#x %x %#x", 0u, 0u, 0xebu);
	SAME("%" PRIu64 " %" PRIu64, (uint64_t)10, UINT64_MAX);
	SAME("%" PRId64 " %" PRId64, INT64_MIN, INT64_MAX);
	SAME("%#" PRIx64 " %#" PRIx64, (uint64_t)0, UINT64_MAX);
}

static void json_is(const char *s, size_t n, const char *want)
{
	struct buf b;
	struct payload t;

	buf_init(&b, 4096);
	t = payload_begin(&b);
	payload_json_n(&t, s, n);
	CHECK(payload_end(&t) == 0 && holds(&b, want));
	buf_done(&b);
}

TEST(writes_texts_as_jansson_does)
{
	static const char *const texts[] = {"",	    "plain", "two\nlines", "\"",       "\\",
					    "\x7f", "\x01",  "/",	   "h\xc3\xa9"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		json_t *j = json_string(texts[i]);
		char *want = json_dumps(j, JSON_ENCODE_ANY | JSON_COMPACT);

		json_is(texts[i], strlen(texts[i]), want);
		free(want);
		json_decref(j);
	}
	json_is("ab", 1, "\"a\"");
	json_is("\xff", 1, "\"'\\\\xff'\"");
}

TEST(a_missing_text_is_null)
{
	struct buf b;
	struct payload t;

	buf_init(&b, 64);
	t = payload_begin(&b);
	payload_json(&t, NULL);
	CHECK(payload_end(&t) == 0 && holds(&b, "null"));
	buf_done(&b);
}

TEST(grows_and_keeps_to_the_maximum)
{
	struct buf b;
	struct payload t;
	size_t n = 0;

	buf_init(&b, 100000);
	CHECK(buf_put(&b, "head", 4) == 0);
	t = payload_begin(&b);
	while (t.err == 0 && n < 200000) {
		payload_out(&t, "%u,", 1234567u);
		n++;
	}
	CHECK(payload_end(&t) == -ENOBUFS && b.len <= 100000 && b.len > 99990);
	CHECK(memcmp(buf_head(&b), "head1234567,1234567,", 20) == 0);
	t = payload_begin(&b);
	payload_put(&t, "x", 1 + 100000 - b.len);
	CHECK(payload_end(&t) == -ENOBUFS);
	buf_done(&b);
}

TEST_MAIN()

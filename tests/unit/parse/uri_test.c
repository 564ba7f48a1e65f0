#include "parse/uri.h"

#include "harness/test.h"

#include <errno.h>
#include <string.h>

static int dec(const char *s, bool plus, char *dst, size_t size) { return uri_decode(s, strlen(s), plus, dst, size); }

TEST(percent_codes_are_decoded_and_bad_ones_refused)
{
	char b[16];

	CHECK(dec("a%20b%2Fc+d", false, b, sizeof(b)) == 7 && strcmp(b, "a b/c+d") == 0);
	CHECK(dec("a+b", true, b, sizeof(b)) == 3 && strcmp(b, "a b") == 0);
	CHECK(dec("%c3%A9", false, b, sizeof(b)) == 2 && strcmp(b, "\xc3\xa9") == 0);
	CHECK(dec("%", false, b, sizeof(b)) == -EINVAL && dec("%4", false, b, sizeof(b)) == -EINVAL);
	CHECK(dec("%g0", false, b, sizeof(b)) == -EINVAL && dec("%00", false, b, sizeof(b)) == -EINVAL);
	CHECK(dec("123456789012345", false, b, sizeof(b)) == 15 && dec("1234567890123456", false, b, sizeof(b)) == -ENOBUFS);
	CHECK(uri_decode("%414", 3, false, b, sizeof(b)) == 1 && strcmp(b, "A") == 0);
}

TEST(queries_are_taken_apart)
{
	const char *q = uri_query("/files?path=a%26b&&user=x=y&flag&path=2");
	struct uri_pair p;
	char b[16];
	int n = 0;

	CHECK(uri_path_len("/files?x") == 6 && uri_path_len("/files") == 6 && uri_query("/files")[0] == '\0');
	CHECK(uri_get(q, "path", b, sizeof(b)) == 3 && strcmp(b, "a&b") == 0);
	CHECK(uri_get(q, "user", b, sizeof(b)) == 3 && strcmp(b, "x=y") == 0);
	CHECK(uri_get(q, "flag", b, sizeof(b)) == 0 && b[0] == '\0');
	CHECK(uri_get(q, "pat", b, sizeof(b)) == -ENOENT && uri_get("", "path", b, sizeof(b)) == -ENOENT);
	CHECK(uri_get("path=%zz", "path", b, sizeof(b)) == -EINVAL);
	while (uri_next(&q, &p))
		n++;
	CHECK(n == 4);
}

TEST_MAIN()

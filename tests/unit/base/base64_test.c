#include "base/base64.h"

#include "harness/test.h"

#include <errno.h>
#include <string.h>

TEST(rfc_4648_vectors_both_ways)
{
	static const char *const v[][2] = {{"", ""},
					   {"f", "Zg=="},
					   {"fo", "Zm8="},
					   {"foo", "Zm9v"},
					   {"foob", "Zm9vYg=="},
					   {"fooba", "Zm9vYmE="},
					   {"foobar", "Zm9vYmFy"}};

	for (size_t i = 0; i < sizeof(v) / sizeof(*v); i++) {
		char *code = base64_encode(v[i][0], strlen(v[i][0]));
		uint8_t back[16];
		size_t n = strcspn(v[i][1], "=");

		CHECK(code != NULL && strcmp(code, v[i][1]) == 0);
		CHECK(base64_size(strlen(v[i][0])) == strlen(v[i][1]));
		CHECK(base64_decode(v[i][1], strlen(v[i][1]), back, sizeof(back)) ==
		      (ssize_t)strlen(v[i][0]));
		CHECK(memcmp(back, v[i][0], strlen(v[i][0])) == 0);
		CHECK(base64_decode(v[i][1], n, back, sizeof(back)) == (ssize_t)strlen(v[i][0]));
		free(code);
	}
}

TEST(both_alphabets_and_nothing_else)
{
	static const char *const bad[] = {"Z",	  "Zg=",  "Z===",  "Zm 9v", "Zm9v\n",
					  "=Zm9", "Zm=v", "Zm9vY", "%%%%"};
	uint8_t b[8];

	CHECK(base64_decode("+/-_", 4, b, sizeof(b)) == 3 && b[0] == 0xfb && b[1] == 0xff &&
	      b[2] == 0xbf);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK(base64_decode(bad[i], strlen(bad[i]), b, sizeof(b)) == -EINVAL);
	CHECK(base64_decode("Zm9vYmFy", 8, b, 5) == -ENOBUFS);
}

TEST_MAIN()

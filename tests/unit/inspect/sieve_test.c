#include "inspect/sieve.h"

#include "base/base64.h"
#include "harness/test.h"

#include <string.h>

static struct needles set;

static char *run(const char *text, size_t step, uint64_t *found)
{
	static char out[4096];
	struct sieve v;
	struct buf o;
	size_t n = strlen(text);

	sieve_init(&v);
	buf_init(&o, sizeof(out) + SIEVE_LONGEST);
	*found = 0;
	for (size_t at = 0; at <= n; at += step) {
		size_t k = n - at < step ? n - at : step;

		if (sieve_pass(&v, &set, (const uint8_t *)text + at, k, at + step > n, &o, found) < 0)
			return NULL;
	}
	memcpy(out, buf_head(&o), o.len);
	out[o.len] = '\0';
	buf_done(&o);
	sieve_done(&v);
	return out;
}

TEST(found_whatever_comes_at_a_time)
{
	static const char text[] = "a tok-12345678secretX and tok-12345678secre, tok-tok-12345678secretX";
	uint64_t found;

	needles_done(&set);
	CHECK(needles_add(&set, "tok-12345678secretX", 19, 3) == 0);
	CHECK(needles_add(&set, "abc", 3, 1) == 0 && set.n == 1);
	CHECK(strcmp(run(text, 100, &found), "a ******************* and tok-12345678secre, tok-*******************") == 0);
	CHECK(found == 1u << 3);
	for (size_t step = 1; step < 60; step++) {
		const char *got = run(text, step, &found);

		CHECK(strlen(got) == strlen(text) && strstr(got, "secretX") == NULL && strstr(got, "2345678s") != NULL);
		CHECK(strstr(got, "12345678secretX") == NULL && found == 1u << 3);
	}
}

TEST(nothing_between_is_masked)
{
	uint64_t found;

	needles_done(&set);
	CHECK(needles_add(&set, "aaaaaaaaaa", 10, 0) == 0 && needles_add(&set, "aaaaaaaaaabaaaaaaaaaaaaaaaaaaaa", 31, 1) == 0);
	for (size_t step = 1; step < 30; step++) {
		const char *got = run("aaaaaaaaaabaaaaaaaaaax", step, &found);

		CHECK(got[10] == 'b' && got[21] == 'x' && got[9] == '*' && got[20] == '*' && found == 1);
	}
}

TEST(overlapping_ones)
{
	uint64_t found;
	char text[] = "xabcdefghijklmnopy";

	needles_done(&set);
	CHECK(needles_add(&set, "abcdefgh", 8, 0) == 0 && needles_add(&set, "efghijkl", 8, 1) == 0 &&
	      needles_add(&set, "klmnop", 6, 2) == 0);
	for (size_t step = 1; step < 20; step++) {
		const char *got = run(text, step, &found);

		CHECK(found == 7 && strstr(got, "ijkl") == NULL && strstr(got, "mnop") == NULL);
	}
	CHECK(strcmp(run(text, 20, &found), "x****************y") == 0);
	CHECK(needles_in(&set, (uint8_t *)text, strlen(text), true) == 7 && strcmp(text, "x****************y") == 0);
}

TEST(nothing_else_is_held)
{
	struct sieve v;
	struct buf o;
	uint64_t found = 0;

	needles_done(&set);
	CHECK(needles_add(&set, "abcdefghijklmnop", 16, 0) == 0);
	sieve_init(&v);
	buf_init(&o, 2 * SIEVE_LONGEST);
	CHECK(sieve_pass(&v, &set, (const uint8_t *)"12abcdefg", 9, false, &o, &found) == 0 && o.len == 9);
	CHECK(sieve_pass(&v, &set, (const uint8_t *)"h", 1, false, &o, &found) == 0 && o.len == 9);
	CHECK(sieve_pass(&v, &set, (const uint8_t *)"x", 1, false, &o, &found) == 0 && o.len == 11);
	CHECK(memcmp(buf_head(&o), "12abcdefghx", 11) == 0 && found == 0);
	sieve_done(&v);
	buf_done(&o);
}

TEST(in_any_form)
{
	static const char secret[] = "ghp_s3cr+t/Value?9";
	static const char *const before[] = {"", "x", "xy", "user:"};

	needles_done(&set);
	CHECK(needles_add_forms(&set, secret, 5) == 0);
	for (size_t i = 0; i < 4; i++) {
		char plain[64], *code;

		(void)snprintf(plain, sizeof(plain), "%s%s and", before[i], secret);
		code = base64_encode(plain, strlen(plain));
		CHECK(code != NULL && needles_in(&set, (uint8_t *)code, strlen(code), true) == 1u << 5);
		CHECK(strstr(code, "**************") != NULL);
		free(code);
	}
	{
		char url[] = "/a?k=ghp_s3cr%2Bt%2FValue%3F9&";

		CHECK(needles_in(&set, (uint8_t *)url, strlen(url), false) == 1u << 5);
	}
	needles_done(&set);
}

TEST_MAIN()

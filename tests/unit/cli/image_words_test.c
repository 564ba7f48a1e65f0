#include "cli/image_words.h"
#include "harness/test.h"

#include <string.h>

#define SAYS(notes, want) CHECK(strcmp(words(notes), want) == 0)

static const char *words(const char *notes)
{
	static char line[IMAGE_WORDS_MAX];

	return image_words(notes, strlen(notes), line);
}

TEST(what_stands_before_the_words_goes)
{
	SAYS("time=\"2026-11-30T07:00:00Z\" level=fatal msg=\"copying: reading \\\"x\\\": EOF\" "
	     "pid=3\n",
	     "copying: reading \"x\": EOF");
	SAYS("   \xe2\xa8\xaf unpack layer: unexpected EOF\n", "unpack layer: unexpected EOF");
	SAYS("tar: x: Cannot open\n\n \xe2\x80\xa2 ...\n", "tar: x: Cannot open");
}

TEST(nothing_said)
{
	SAYS("", "the tools failed without a word");
	SAYS("\n \x01\x02\n...\n", "the tools failed without a word");
}

TEST(digests_are_short)
{
	SAYS(
	    "blob sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef: missing",
	    "blob sha256:0123456789ab: missing");
	/* longer than a digest: something else */
	CHECK(strlen(words("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0")) ==
	      65);
}

TEST(the_reason_stays_whole)
{
	char notes[1000], line[IMAGE_WORDS_MAX];

	(void)snprintf(notes, sizeof(notes),
		       "copying image: %0200d: reading manifest: no such file or directory", 1);
	SAYS(notes, "copying image: ...: reading manifest: no such file or directory");
	(void)snprintf(notes, sizeof(notes), "%0200d: no such file or directory", 1);
	SAYS(notes, "...: no such file or directory");
	memset(notes, 'x', sizeof(notes));
	(void)image_words(notes, sizeof(notes), line);
	CHECK(strlen(line) == IMAGE_WORDS_MAX - 1 && strncmp(line, "...xx", 5) == 0);
}

TEST(never_more_than_a_line_of_ascii)
{
	char notes[600], line[IMAGE_WORDS_MAX];

	for (unsigned seed = 0; seed < 2000; seed++) {
		unsigned x = seed;

		for (size_t i = 0; i < sizeof(notes); i++) {
			x = x * 1103515245 + 12345;
			notes[i] = "\n: \\\"ma=sg\x80\x1b"
				   "0123abcdef"[(x >> 16) % 22];
		}
		(void)image_words(notes, seed % sizeof(notes), line);
		CHECK(memchr(line, '\0', sizeof(line)) != NULL && line[0] != '\0');
		for (const char *c = line; *c != '\0'; c++)
			CHECK(*c >= ' ' && *c <= '~');
	}
}
TEST_MAIN()

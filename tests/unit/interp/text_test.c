#include "harness/test.h"
#include "interp/interp.h"

#include <string.h>

static const char *said(struct interp_text *t, const char *s, size_t n)
{
	static char out[4096];
	struct buf b;

	buf_init(&b, sizeof(out) - 1);
	if ((s != NULL ? interp_text(t, "o", s, n, &b) : interp_text_end(t, "o", &b)) < 0)
		return NULL;
	if (b.len > 0)
		memcpy(out, buf_head(&b), b.len);
	out[b.len] = '\0';
	buf_done(&b);
	return out;
}
#define SAID(t, s, want) CHECK(strcmp(said(t, s, sizeof(s) - 1), want) == 0)
#define EVENT(text)	 "{\"type\":\"o\",\"text\":\"" text "\"}\n"

TEST(plain_text_and_control_characters)
{
	struct interp_text t = {.part_n = 0};

	SAID(&t, "a \"b\" \\\n", EVENT("a \\\"b\\\" \\\\\\n"));
	SAID(&t, "\t\0\177", EVENT("\\u0009\\u0000\\u007f"));
	CHECK(said(&t, NULL, 0)[0] == '\0');
}

TEST(characters_in_pieces)
{
	struct interp_text t = {.part_n = 0};

	SAID(&t, "\303\251\360\237\230\200", EVENT("\\u00e9\\ud83d\\ude00"));
	SAID(&t, "a\360\237", EVENT("a"));
	SAID(&t, "\230", "");
	SAID(&t, "\200b", EVENT("\\ud83d\\ude00b"));
	SAID(&t, "\342\202", "");
	CHECK(strcmp(said(&t, NULL, 0), EVENT("\\ufffd\\ufffd")) == 0);
}

TEST(what_is_no_utf8)
{
	struct interp_text t = {.part_n = 0};

	SAID(&t, "\377a\300\200", EVENT("\\ufffda\\ufffd\\ufffd"));
	SAID(&t, "\355\240\200", EVENT("\\ufffd\\ufffd\\ufffd")); /* half of a pair */
	SAID(&t, "\364\220\200\200", EVENT("\\ufffd\\ufffd\\ufffd\\ufffd"));
	SAID(&t, "\342\202", "");
	SAID(&t, "x", EVENT("\\ufffd\\ufffdx"));
}

TEST_MAIN()

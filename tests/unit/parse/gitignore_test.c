#include "parse/gitignore.h"

#include "harness/test.h"

#include <errno.h>
#include <string.h>

/* 'i' ignored, 'k' kept by a negated pattern, '-' nothing said. A path with a trailing slash is a folder. */
static char ask(const char *rules, const char *path)
{
	struct gitignore *g = NULL;
	size_t n = strlen(path);
	bool dir = path[n - 1] == '/';
	char p[300];
	enum gitignore_answer a;

	if (gitignore_parse(rules, strlen(rules), &g) < 0)
		return '?';
	(void)snprintf(p, sizeof(p), "%.*s", (int)(n - dir), path);
	a = gitignore_match(g, p, dir);
	gitignore_free(g);
	return "-ik"[a];
}

TEST(names_match_at_every_depth)
{
	CHECK(ask("foo", "foo") == 'i' && ask("foo", "a/b/foo") == 'i' && ask("foo", "food") == '-');
	CHECK(ask("*.o", "x.o") == 'i' && ask("*.o", "a/x.o") == 'i' && ask("*.o", "x.oo") == '-');
	CHECK(ask("f?o", "foo") == 'i' && ask("f?o", "fo") == '-' && ask("f[a-o]o", "foo") == 'i');
	CHECK(ask("*", ".hidden") == 'i' && ask("foo*bar*baz", "foo-bar-bar-baz") == 'i');
}
TEST(a_slash_anchors)
{
	CHECK(ask("/foo", "foo") == 'i' && ask("/foo", "a/foo") == '-');
	CHECK(ask("a/foo", "a/foo") == 'i' && ask("a/foo", "b/a/foo") == '-');
	CHECK(ask("a/*", "a/b") == 'i' && ask("a/*", "a/b/c") == '-' && ask("/*.c", "x/y.c") == '-');
	CHECK(ask("a/b?c", "a/b/c") == '-' && ask("a/b[/]c", "a/b/c") == '-');
}
TEST(a_trailing_slash_means_folder)
{
	CHECK(ask("foo/", "foo/") == 'i' && ask("foo/", "foo") == '-' && ask("foo/", "a/foo/") == 'i');
	CHECK(ask("/foo/", "a/foo/") == '-' && ask("a/foo/", "a/foo/") == 'i');
}
TEST(two_stars)
{
	CHECK(ask("**/foo", "foo") == 'i' && ask("**/foo", "a/b/foo") == 'i');
	CHECK(ask("**/foo/bar", "x/foo/bar") == 'i' && ask("**/foo/bar", "foo/x/bar") == '-');
	CHECK(ask("abc/**", "abc/x") == 'i' && ask("abc/**", "abc/x/y") == 'i' && ask("abc/**", "abc/") == '-');
	CHECK(ask("a/**/b", "a/b") == 'i' && ask("a/**/b", "a/x/y/b") == 'i' && ask("a/**/b", "a/xb") == '-');
	CHECK(ask("a/**/b/**/c", "a/1/b/2/b/3/c") == 'i' && ask("a/**/b*d/c", "a/bd/bxd/c") == 'i');
	CHECK(ask("a**b/c", "axxb/c") == 'i' && ask("a**b/c", "ax/xb/c") == '-');
	CHECK(ask("**", "x/y") == 'i' && ask("/****/a", "x/y/a") == 'i' && ask("***/a", "a") == 'i');
}
TEST(the_last_match_wins)
{
	CHECK(ask("*.log\n!keep.log", "keep.log") == 'k' && ask("*.log\n!keep.log", "x.log") == 'i');
	CHECK(ask("!x\nx", "x") == 'i' && ask("!x", "y") == '-');
}
TEST(comments_blanks_and_escapes)
{
	CHECK(ask("# foo\n\n   \nfoo  ", "foo") == 'i' && ask("#x", "#x") == '-' && ask("\\#x", "#x") == 'i');
	CHECK(ask("\\!x", "!x") == 'i' && ask("foo\\ ", "foo ") == 'i' && ask("foo\\  ", "foo ") == 'i');
	CHECK(ask("foo\r\nbar\r\n", "foo") == 'i' && ask("foo\r\nbar\r\n", "bar") == 'i');
	CHECK(ask("\\f\\o\\o", "foo") == 'i' && ask("a\\*b", "a*b") == 'i' && ask("a\\*b", "axb") == '-');
	CHECK(ask("\xef\xbb\xbf" "foo", "foo") == 'i' && ask("foo\\", "foo\\") == '-');
	CHECK(ask("/", "x") == '-' && ask("!", "!") == '-' && ask("!/", "x/") == '-');
}
TEST(brackets)
{
	CHECK(ask("[!a]x", "bx") == 'i' && ask("[^a]x", "ax") == '-' && ask("[]]x", "]x") == 'i');
	CHECK(ask("[!]a]x", "]x") == '-' && ask("[a-]x", "-x") == 'i' && ask("[\\]]x", "]x") == 'i');
	CHECK(ask("[[:digit:]]x", "7x") == 'i' && ask("[[:digit:][:upper:]]x", "Ax") == 'i');
	CHECK(ask("[[:digit:]]x", "ax") == '-' && ask("[ax", "[ax") == '-' && ask("[z-a]x", "mx") == '-');
}
TEST(limits)
{
	struct gitignore *g = NULL;
	size_t n = 2u * (GITIGNORE_PATTERNS_MAX + 1);
	char *big = malloc(GITIGNORE_FILE_MAX + 1);

	CHECK(big != NULL);
	memset(big, 'a', GITIGNORE_FILE_MAX + 1);
	CHECK(gitignore_parse(big, GITIGNORE_FILE_MAX + 1, &g) == -E2BIG);
	CHECK(gitignore_parse(big, GITIGNORE_FILE_MAX, &g) == 0); /* one line, too long to mean anything */
	CHECK(gitignore_match(g, "a", false) == GITIGNORE_SILENT);
	gitignore_free(g);
	for (size_t i = 1; i < n; i += 2)
		big[i] = '\n';
	CHECK(gitignore_parse(big, n - 2, &g) == 0);
	gitignore_free(g);
	CHECK(gitignore_parse(big, n, &g) == -E2BIG);
	CHECK(gitignore_parse("a\0b\nc", 5, &g) == 0);
	CHECK(gitignore_match(g, "c", false) == GITIGNORE_IGNORE);
	gitignore_free(g);
	gitignore_free(NULL);
	free(big);
}
TEST(patterns_made_to_be_slow)
{
	char stars[2001], text[4001], deep[3001];

	for (size_t i = 0; i + 1 < sizeof(stars); i += 2)
		memcpy(stars + i, "*a", 3);
	stars[sizeof(stars) - 2] = 'b';
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	CHECK(!gitignore_glob(stars, text, false));
	for (size_t i = 0; i + 1 < sizeof(text); i += 2)
		text[i + 1] = '/';
	text[sizeof(text) - 2] = 'a';
	for (size_t i = 0; i + 5 < sizeof(deep); i += 5)
		memcpy(deep + i, "**/a/", 6);
	memcpy(deep + strlen(deep) - 2, "b", 2);
	CHECK(!gitignore_glob(deep, text, true));
}
TEST_MAIN()

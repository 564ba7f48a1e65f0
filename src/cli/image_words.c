#include "cli/image_words.h"

#include "base/num.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/*
 * skopeo writes logrus lines (time="..." level=fatal msg="...", the message quoted as Go does),
 * umoci a mark and the error, the shell and GNU tools NAME: REASON. All join what they were doing
 * and why it failed with ": ".
 */

enum { LINE_MAX_BYTES = 4096, DIGEST_DIGITS = 64, DIGEST_SHOWN = 12 };

static bool says_something(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (isalnum((unsigned char)s[i]) != 0)
			return true;
	return false;
}

/* The last line that says something; 0 = none. */
static size_t last_line(const char *notes, size_t n, const char **ret)
{
	size_t end = n;

	while (end > 0) {
		size_t at = end;

		while (at > 0 && notes[at - 1] != '\n')
			at--;
		if (says_something(notes + at, end - at)) {
			*ret = notes + at;
			return end - at;
		}
		end = at > 0 ? at - 1 : 0;
	}
	return 0;
}

/* The value of msg="...", as far as its closing quote, without its escapes; else the line itself. */
static void message(const char *s, size_t n, char dst[LINE_MAX_BYTES])
{
	const char *msg = memmem(s, n, "msg=\"", 5), *end = s + n;
	size_t out = 0;

	for (const char *c = msg != NULL ? msg + 5 : s; c < end && out + 1 < LINE_MAX_BYTES; c++) {
		if (msg != NULL && *c == '"')
			break;
		if (msg != NULL && *c == '\\' && c + 1 < end)
			c++;
		dst[out++] = *c != '\0' ? *c : ' ';
	}
	dst[out] = '\0';
}

/* Printable ASCII without what stands before the first word; digests as their first digits. */
static size_t tidy(char *s)
{
	size_t out = 0, digits = 0;
	const char *c = s;

	while (*c != '\0' && isalnum((unsigned char)*c) == 0 && strchr("\"'(/.", *c) == NULL)
		c++;
	for (; *c != '\0'; c++) {
		digits = isxdigit((unsigned char)*c) != 0 ? digits + 1 : 0;
		s[out++] = *c >= ' ' && *c <= '~' ? *c : '?';
		if (digits == DIGEST_DIGITS && isxdigit((unsigned char)c[1]) == 0) {
			out -= DIGEST_DIGITS - DIGEST_SHOWN;
			digits = 0;
		}
	}
	while (out > 0 && s[out - 1] == ' ')
		out--;
	s[out] = '\0';
	return out;
}

/* Parts are joined by ": ". The longest run of last ones that fits; before it the first one, where
 * there is room. */
static void shorten(const char *s, size_t n, char dst[IMAGE_WORDS_MAX])
{
	static const char gap[] = "...: ";
	size_t room = IMAGE_WORDS_MAX - 1, from = n, head;
	const char *colon = strstr(s, ": ");

	if (n <= room) {
		memcpy(dst, s, n + 1);
		return;
	}
	for (size_t i = n; i-- > 2;)
		if (s[i - 2] == ':' && s[i - 1] == ' ' && n - i + strlen(gap) <= room)
			from = i;
	if (from == n) { /* one part that is too long */
		(void)snprintf(dst, IMAGE_WORDS_MAX, "...%s", s + n - (room - 3));
		return;
	}
	head = colon == NULL ? 0 : (size_t)(colon + 2 - s);
	if (head == 0 || head >= from || head + strlen(gap) + (n - from) > room)
		head = 0;
	(void)snprintf(dst, IMAGE_WORDS_MAX, "%.*s%s%s", (int)head, s, gap, s + from);
}

const char *image_words(const char *notes, size_t n, char dst[IMAGE_WORDS_MAX])
{
	char line[LINE_MAX_BYTES];
	const char *last = NULL;
	size_t len = last_line(notes, n, &last);

	if (len > 0) {
		message(last, MIN(len, (size_t)LINE_MAX_BYTES - 1), line);
		len = tidy(line);
	}
	if (len == 0)
		(void)snprintf(dst, IMAGE_WORDS_MAX, "the tools failed without a word");
	else
		shorten(line, len, dst);
	return dst;
}

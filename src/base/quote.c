#include "base/quote.h"
/*
 * Error messages show words of the command line, of profiles and of the sandbox. An escape sequence
 * among them could rewrite the terminal, so nothing but printable ASCII goes through.
 */
#include <stdbool.h>
#include <string.h>

/* mark: the quotation mark around the text, which is escaped inside; 0 = none. */
static const char *escape(const char *s, size_t n, char mark, char dst[QUOTE_MAX])
{
	static const char hex[] = "0123456789abcdef";
	size_t at = 0;
	bool cut = false;

	if (mark != '\0')
		dst[at++] = mark;
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];
		bool plain = c >= ' ' && c < 0x7f && c != '\\' && (mark == '\0' || s[i] != mark);

		if (at + 4 + 5 > QUOTE_MAX) { /* an escape, then "...'" and the end */
			cut = true;
			break;
		}
		if (plain) {
			dst[at++] = (char)c;
		} else {
			dst[at++] = '\\';
			dst[at++] = 'x';
			dst[at++] = hex[c >> 4];
			dst[at++] = hex[c & 15];
		}
	}
	if (cut) {
		memcpy(dst + at, "...", 3);
		at += 3;
	}
	if (mark != '\0')
		dst[at++] = mark;
	dst[at] = '\0';
	return dst;
}

const char *quote_n(const char *s, size_t n, char dst[QUOTE_MAX]) { return escape(s, n, '\'', dst); }

const char *quote(const char *s, char dst[QUOTE_MAX]) { return quote_n(s, strlen(s), dst); }

const char *quote_bare(const char *s, char dst[QUOTE_MAX])
{
	return escape(s, strlen(s), '\0', dst);
}

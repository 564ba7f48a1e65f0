#pragma once
/* Foreign text made safe to show: quoted, control and non-ASCII bytes escaped, cut when long. */
#include <stddef.h>

enum { QUOTE_MAX = 96 }; /* bytes of a quoted text, with its end */
/* Write 'text' into dst. Cut texts end in "...". Returns dst. */
const char *quote(const char *s, char dst[QUOTE_MAX]);
const char *quote_n(const char *s, size_t n, char dst[QUOTE_MAX]);
/* The same without quotation marks: for whole sentences from a foreign place. */
const char *quote_bare(const char *s, char dst[QUOTE_MAX]);

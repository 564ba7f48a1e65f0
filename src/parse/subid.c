#include "parse/subid.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fed by /etc/subuid and /etc/subgid, which the administrator writes; still only well-formed lines
 * count, so that a typing error cannot become a wrong mapping. */

/* A decimal u32 that ends at `end`. */
static bool number(const char *p, const char *end, uint32_t *ret)
{
	uint64_t v = 0;

	if (p == end || end - p > 10)
		return false;
	for (; p < end; p++) {
		if (*p < '0' || *p > '9')
			return false;
		v = v * 10 + (uint64_t)(*p - '0');
	}
	if (v > UINT32_MAX)
		return false;
	*ret = (uint32_t)v;
	return true;
}

static bool line_matches(const char *p, const char *end, const char *name, uint32_t uid,
			 uint32_t count, uint32_t *ret_first)
{
	const char *c1 = memchr(p, ':', (size_t)(end - p));
	const char *c2 = c1 == NULL ? NULL : memchr(c1 + 1, ':', (size_t)(end - c1 - 1));
	uint32_t first, have, who;

	if (c2 == NULL || !number(c1 + 1, c2, &first) || !number(c2 + 1, end, &have))
		return false;
	if (have < count || first == 0 || UINT32_MAX - first < have)
		return false;
	if (!(name != NULL && strlen(name) == (size_t)(c1 - p) &&
	      memcmp(p, name, (size_t)(c1 - p)) == 0) &&
	    !(number(p, c1, &who) && who == uid))
		return false;
	*ret_first = first;
	return true;
}

int subid_parse(const char *text, size_t n, const char *name, uint32_t uid, uint32_t count,
		uint32_t *ret_first)
{
	const char *end = text + n;

	while (text < end) {
		const char *nl = memchr(text, '\n', (size_t)(end - text));
		const char *stop = nl != NULL ? nl : end;

		if (line_matches(text, stop, name, uid, count, ret_first))
			return 0;
		text = stop + 1;
	}
	return -ENOENT;
}

int subid_find(const char *path, const char *name, uint32_t uid, uint32_t count,
	       uint32_t *ret_first)
{
	enum { MAX = 64 * 1024 };
	FILE *f = fopen(path, "re");
	char *text;
	size_t n;
	int r;

	if (f == NULL)
		return -errno;
	text = malloc(MAX);
	n = text == NULL ? 0 : fread(text, 1, MAX, f);
	r = text == NULL ? -ENOMEM : subid_parse(text, n, name, uid, count, ret_first);
	free(text);
	(void)fclose(f);
	return r;
}

#include "keep/files.h"

#include "keep/fsop.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Field values are a client's, names the sandbox's: of any content. */

static const char date_form[] = "%a, %d %b %Y %H:%M:%S GMT";

void files_date(time_t at, char dst[FILES_DATE])
{
	struct tm tm;

	if (gmtime_r(&at, &tm) == NULL || strftime(dst, FILES_DATE, date_form, &tm) == 0)
		(void)snprintf(dst, FILES_DATE, "Thu, 01 Jan 1970 00:00:00 GMT");
}

bool files_date_read(const char *s, time_t *ret)
{
	struct tm tm = {.tm_isdst = 0};
	const char *end = strptime(s, date_form, &tm);

	if (end == NULL || *end != '\0')
		return false;
	*ret = timegm(&tm);
	return true;
}

static bool number(const char **s, uint64_t *ret)
{
	size_t n = strspn(*s, "0123456789");

	if (n == 0 || n > 18)
		return false;
	*ret = strtoull(*s, NULL, 10);
	*s += n;
	return true;
}

enum files_range files_range(const char *field, uint64_t size, uint64_t *first, uint64_t *n)
{
	uint64_t a = 0, b = UINT64_MAX;
	const char *s = field;
	bool has_a, has_b;

	if (s == NULL || strncmp(s, "bytes=", 6) != 0)
		return RANGE_NONE;
	s += 6;
	has_a = number(&s, &a);
	if (*s++ != '-')
		return RANGE_NONE;
	has_b = number(&s, &b);
	if (*s != '\0' || (!has_a && !has_b) || (has_a && has_b && b < a))
		return RANGE_NONE;
	if (!has_a) { /* the last b bytes */
		a = b < size ? size - b : 0;
		if (b == 0)
			return RANGE_UNMET;
		b = UINT64_MAX;
	}
	if (a >= size)
		return RANGE_UNMET;
	*first = a;
	*n = b >= size ? size - a : b - a + 1;
	return RANGE_OK;
}

void files_disposition(const char *path, char *dst, size_t size)
{
	static const char hex[] = "0123456789ABCDEF";
	const char *name = strrchr(path, '/');
	bool plain = true;
	size_t n;

	name = name != NULL ? name + 1 : path;
	for (const char *s = name; *s != '\0'; s++)
		plain = plain && (isalnum((unsigned char)*s) || strchr("._- ", *s) != NULL);
	if (plain) {
		(void)snprintf(dst, size, "inline; filename=\"%s\"", name);
		return;
	}
	n = (size_t)snprintf(dst, size, "inline; filename*=UTF-8''");
	for (const char *s = name; *s != '\0' && n + 4 < size; s++) {
		unsigned char c = (unsigned char)*s;

		if (isalnum(c) || strchr("._-", c) != NULL) {
			dst[n++] = (char)c;
		} else {
			dst[n++] = '%';
			dst[n++] = hex[c >> 4];
			dst[n++] = hex[c & 15];
		}
	}
	dst[n] = '\0';
}

void files_fail(struct talk *t, int err, const char *path, const char *text)
{
	if (err == ENOSPC || err == EDQUOT)
		fail_status(t, 507, "not enough disk space available: %s", text);
	else if (err == EISDIR)
		fail_status(t, 400, "path '%s' is a directory", path);
	else
		fs_fail(t, err, path, text);
}

/* Fed by clients of the daemon before anything is known of them. Keeps no state and allocates nothing. */
#include "parse/uri.h"

#include "base/num.h"

#include <errno.h>
#include <string.h>

int uri_decode(const char *s, size_t n, bool plus, char *dst, size_t size)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		char c = s[i];

		if (c == '%') {
			int hi = n - i > 2 ? hex_digit((uint8_t)s[i + 1]) : -1,
			    lo = n - i > 2 ? hex_digit((uint8_t)s[i + 2]) : -1;

			if (hi < 0 || lo < 0 || hi + lo == 0)
				return -EINVAL;
			c = (char)(hi * 16 + lo);
			i += 2;
		} else if (c == '+' && plus) {
			c = ' ';
		}
		if (size - at < 2)
			return -ENOBUFS;
		dst[at++] = c;
	}
	if (size == 0)
		return -ENOBUFS;
	dst[at] = '\0';
	return (int)at;
}

size_t uri_path_len(const char *target) { return strcspn(target, "?"); }

const char *uri_query(const char *target)
{
	const char *q = target + uri_path_len(target);

	return *q == '?' ? q + 1 : q;
}

bool uri_next(const char **query, struct uri_pair *ret)
{
	const char *p = *query;
	size_t n;

	p += strspn(p, "&");
	if (*p == '\0')
		return false;
	n = strcspn(p, "&");
	ret->name = p;
	ret->name_n = strcspn(p, "=&");
	ret->value = p + ret->name_n + (ret->name_n < n ? 1 : 0);
	ret->value_n = (size_t)(p + n - ret->value);
	*query = p + n;
	return true;
}

int uri_get(const char *query, const char *name, char *dst, size_t size)
{
	char key[64];
	struct uri_pair p;

	while (uri_next(&query, &p)) {
		if (uri_decode(p.name, p.name_n, true, key, sizeof(key)) < 0 || strcmp(key, name) != 0)
			continue;
		return uri_decode(p.value, p.value_n, true, dst, size);
	}
	return -ENOENT;
}

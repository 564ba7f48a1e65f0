#include "base/base64.h"
/* Plain table encoder; the input is what a sandbox wrote, of any content. */
#include <stdint.h>
#include <stdlib.h>

char *base64_encode(const void *p, size_t n)
{
	static const char t[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const uint8_t *s = (const uint8_t *)p;
	char *ret, *d;

	if (n > SIZE_MAX / 2)
		return NULL;
	ret = malloc((n + 2) / 3 * 4 + 1);
	if (ret == NULL)
		return NULL;
	d = ret;
	for (; n > 0; n -= n < 3 ? n : 3, s += 3) {
		uint32_t v = (uint32_t)s[0] << 16;

		if (n > 1)
			v |= (uint32_t)s[1] << 8;
		if (n > 2)
			v |= s[2];
		*d++ = t[v >> 18];
		*d++ = t[v >> 12 & 63];
		*d++ = n > 1 ? t[v >> 6 & 63] : '=';
		*d++ = n > 2 ? t[v & 63] : '=';
	}
	*d = '\0';
	return ret;
}

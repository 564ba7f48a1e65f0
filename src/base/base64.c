#include "base/base64.h"
/* Plain table encoder and decoder; the input is what a sandbox or a client wrote, of any content.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void base64_put(char *d, const void *p, size_t n)
{
	static const char t[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const uint8_t *s = (const uint8_t *)p;

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
}

char *base64_encode(const void *p, size_t n)
{
	char *ret;

	if (n > SIZE_MAX / 2)
		return NULL;
	ret = malloc(base64_size(n) + 1);
	if (ret == NULL)
		return NULL;
	base64_put(ret, p, n);
	ret[base64_size(n)] = '\0';
	return ret;
}

static int value_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

ssize_t base64_decode(const char *s, size_t n, uint8_t *dst, size_t size)
{
	size_t out = 0;
	uint32_t v = 0;
	int bits = 0;

	if (n > 0 && n % 4 == 0 && s[n - 1] == '=')
		n -= s[n - 2] == '=' ? 2 : 1;
	if (n % 4 == 1)
		return -EINVAL;
	for (; n > 0; n--, s++) {
		int c = value_of(*s);

		if (c < 0)
			return -EINVAL;
		v = v << 6 | (uint32_t)c;
		bits += 6;
		if (bits < 8)
			continue;
		bits -= 8;
		if (out == size)
			return -ENOBUFS;
		dst[out++] = (uint8_t)(v >> bits);
	}
	return (ssize_t)out;
}

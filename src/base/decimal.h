#pragma once
/* Numbers as decimal digits, where printf(3) would be most of what a line takes. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { DECIMAL_MAX = 20 }; /* as many digits as a number has */

/* Zeros in front up to `width` digits, at most DECIMAL_MAX. No zero byte behind them. How many were written. */
static inline size_t decimal_put(char dst[DECIMAL_MAX], uint64_t v, size_t width)
{
	char digits[DECIMAL_MAX];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v != 0 || (sizeof(digits) - at < width && at > 0));
	memcpy(dst, digits + at, sizeof(digits) - at);
	return sizeof(digits) - at;
}

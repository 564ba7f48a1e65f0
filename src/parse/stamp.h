#pragma once
/* Moments as RFC 3339 writes them. */
#include "base/err.h"

#include <stdint.h>

enum { STAMP_SIZE = 48 };

/* In UTC: "2026-11-30T21:38:35Z", with `digits` (0 to 9) of ns behind the second. A moment of other years than 0000 to 9999: 1970's first. */
const char *stamp_text(int64_t s, uint32_t ns, unsigned digits, char dst[STAMP_SIZE]);
/* Milliseconds since 1970, told to the millisecond. */
const char *stamp_ms(int64_t ms, char dst[STAMP_SIZE]);

/* Milliseconds since 1970, rounded down; of years 0000 to 9999, with Z or an offset. 0 or -EINVAL. */
int must_check stamp_read(const char *text, int64_t *ret_ms);

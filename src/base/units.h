#pragma once
/*
 * Sizes, durations, CPU shares and counts as people write them. One strict reading each: no sign,
 * no space, no exponent, nothing after the unit, no value that does not fit.
 *
 * Every function returns 0 and *ret, or -EINVAL / -ERANGE with e->msg saying what is wrong with the
 * text and at which character (the text itself and the setting's name are the caller's to add).
 */
#include "base/err.h"

#include <stdint.h>

/* Bytes. "4096", or a whole number with k K M G T, Ki Mi Gi Ti or KiB MiB GiB TiB: powers of 1024. */
int must_check units_size(const char *s, uint64_t *ret, struct err *e);
/* Milliseconds. "10" and "1.5" are seconds; else parts in falling order: "1h30m", "2m", "1.5s", "500ms". */
int must_check units_duration(const char *s, uint64_t *ret, struct err *e);
/* Thousandths of a CPU: "2", "0.5", "1.25"; at most three digits after the point. */
int must_check units_cpus(const char *s, uint32_t *ret, struct err *e);
/* A whole number from 0 to max. */
int must_check units_count(const char *s, uint64_t max, uint64_t *ret, struct err *e);

enum { UNITS_TEXT = 32 };
/* The shortest exact text of a size: "64 MiB", "1000 bytes". Returns dst. */
const char *units_size_text(uint64_t bytes, char dst[UNITS_TEXT]);
/* The same for a duration, in one unit: "90m", "1.5s", "20ms". Returns dst. */
const char *units_duration_text(uint64_t ms, char dst[UNITS_TEXT]);

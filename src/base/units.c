#include "base/units.h"
/*
 * Strict readers for the numbers of the command line and of profiles. The text comes from people and
 * from files of unknown origin, so every step is bounded: digits are added with overflow checks, and
 * a character that is not expected ends the reading with its position.
 */
#include "base/num.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* What is wrong at s[at]: shared by every reader, so that all messages look alike. */
static int bad_at(const char *s, size_t at, const char *want, struct err *e)
{
	unsigned char c = (unsigned char)s[at];

	if (c == '\0')
		return err_set(e, ERR_INVALID, EINVAL, "ends too early: expected %s", want);
	if (c <= ' ' || c >= 0x7f)
		return err_set(e, ERR_INVALID, EINVAL, "character %zu (code %u): expected %s",
			       at + 1, c, want);
	return err_set(e, ERR_INVALID, EINVAL, "character %zu ('%c'): expected %s", at + 1, c, want);
}

static int too_large(struct err *e) { return err_set(e, ERR_INVALID, ERANGE, "too large"); }

/* Digits from s[*at]; *at moves behind them. -EINVAL: none there, -ERANGE: does not fit. */
static int read_digits(const char *s, size_t *at, uint64_t *ret)
{
	uint64_t v = 0;
	size_t i = *at;

	if (!is_digit(s[i]))
		return -EINVAL;
	for (; is_digit(s[i]); i++)
		if (!mul_u64(v, 10, &v) || !add_u64(v, (uint64_t)(s[i] - '0'), &v))
			return -ERANGE;
	*at = i;
	*ret = v;
	return 0;
}

/* A number with up to three digits after a point, in thousandths. */
static int read_milli(const char *s, size_t *at, bool *ret_fraction, uint64_t *ret, struct err *e)
{
	uint64_t v;
	int r = read_digits(s, at, &v);

	if (r == -EINVAL)
		return bad_at(s, *at, "a digit", e);
	if (r < 0 || !mul_u64(v, 1000, &v))
		return too_large(e);
	*ret_fraction = false;
	if (s[*at] == '.') {
		uint64_t scale = 100;

		*ret_fraction = true;
		(*at)++;
		if (!is_digit(s[*at]))
			return bad_at(s, *at, "a digit", e);
		for (; is_digit(s[*at]); (*at)++, scale /= 10) {
			if (scale == 0)
				return bad_at(s, *at, "at most three digits after the point", e);
			if (!add_u64(v, scale * (uint64_t)(s[*at] - '0'), &v))
				return too_large(e);
		}
	}
	*ret = v;
	return 0;
}

int units_count(const char *s, uint64_t max, uint64_t *ret, struct err *e)
{
	uint64_t v;
	size_t at = 0;
	int r = read_digits(s, &at, &v);

	if (r == -EINVAL)
		return bad_at(s, at, "a whole number", e);
	if (r == 0 && s[at] != '\0')
		return bad_at(s, at, "nothing after the number", e);
	if (r < 0 || v > max)
		return err_set(e, ERR_INVALID, ERANGE, "too large: at most %" PRIu64, max);
	*ret = v;
	return 0;
}

int units_size(const char *s, uint64_t *ret, struct err *e)
{
	static const char letters[] = "kMGT";
	const char *l;
	uint64_t v;
	size_t at = 0;
	int r = read_digits(s, &at, &v);

	if (r == -EINVAL)
		return bad_at(s, at, "a size such as 64M, 1GiB or 4096", e);
	if (r < 0)
		return too_large(e);
	if (s[at] == '\0') {
		*ret = v;
		return 0;
	}
	if (s[at] == '.')
		return bad_at(s, at, "a whole number: use a smaller unit", e);
	l = strchr(letters, s[at] == 'K' ? 'k' : s[at]);
	if (l == NULL)
		return bad_at(s, at, "one of the units k, M, G, T, KiB, MiB, GiB, TiB", e);
	at++;
	if (s[at] == 'B')
		return bad_at(s, at, "the unit without B, or with iB: both count in 1024s", e);
	if (s[at] == 'i') {
		at++;
		if (s[at] == 'B')
			at++;
	}
	if (s[at] != '\0')
		return bad_at(s, at, "nothing after the unit", e);
	if (!mul_u64(v, 1ULL << (10 * (l - letters + 1)), &v))
		return too_large(e);
	*ret = v;
	return 0;
}

static const struct time_unit {
	char name[4];
	uint64_t ms;
} time_units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};

/* The index of the unit at s, -1 when there is none; *len is its length. */
static int find_unit(const char *s, size_t *len)
{
	size_t n = 0;

	while (s[n] >= 'a' && s[n] <= 'z')
		n++;
	*len = n;
	for (size_t i = 0; i < ARRAY_LEN(time_units); i++)
		if (n == strlen(time_units[i].name) && memcmp(s, time_units[i].name, n) == 0)
			return (int)i;
	return -1;
}

int units_duration(const char *s, uint64_t *ret, struct err *e)
{
	uint64_t sum = 0, v, part;
	size_t at = 0, len;
	bool fraction;
	int last = -1;

	do {
		int unit, r = read_milli(s, &at, &fraction, &v, e);

		if (r < 0)
			return r;
		if (s[at] == '\0' && last < 0) { /* a plain number: thousandths of a second */
			*ret = v;
			return 0;
		}
		unit = find_unit(s + at, &len);
		if (unit < 0)
			return bad_at(s, at, "one of the units ms, s, m, h, d", e);
		if (unit <= last)
			return bad_at(s, at, "units in falling order, each once", e);
		at += len;
		last = unit;
		if (fraction && s[at] != '\0')
			return bad_at(s, at, "nothing after a part with a point", e);
		part = v % 1000 * time_units[unit].ms; /* thousandths of a unit: small */
		if (part % 1000 != 0)
			return err_set(e, ERR_INVALID, EINVAL, "finer than a millisecond");
		if (!mul_u64(v / 1000, time_units[unit].ms, &v) || !add_u64(v, part / 1000, &v) ||
		    !add_u64(sum, v, &sum))
			return too_large(e);
	} while (s[at] != '\0');
	*ret = sum;
	return 0;
}

int units_cpus(const char *s, uint32_t *ret, struct err *e)
{
	bool fraction;
	uint64_t v;
	size_t at = 0;
	int r = read_milli(s, &at, &fraction, &v, e);

	if (r < 0)
		return r;
	if (s[at] != '\0')
		return bad_at(s, at, "nothing after the number", e);
	if (v > UINT32_MAX)
		return too_large(e);
	*ret = (uint32_t)v;
	return 0;
}

const char *units_size_text(uint64_t bytes, char dst[UNITS_TEXT])
{
	static const char *const names[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
	size_t u = 0;

	while (u + 1 < ARRAY_LEN(names) && bytes != 0 && bytes % 1024 == 0) {
		bytes /= 1024;
		u++;
	}
	(void)snprintf(dst, UNITS_TEXT, "%" PRIu64 " %s", bytes, names[u]);
	return dst;
}

const char *units_duration_text(uint64_t ms, char dst[UNITS_TEXT])
{
	if (ms < 1000)
		(void)snprintf(dst, UNITS_TEXT, "%" PRIu64 "ms", ms);
	else if (ms % 1000 != 0)
		(void)snprintf(dst, UNITS_TEXT, "%" PRIu64 ".%03" PRIu64 "s", ms / 1000, ms % 1000);
	else if (ms % 3600000 == 0)
		(void)snprintf(dst, UNITS_TEXT, "%" PRIu64 "h", ms / 3600000);
	else if (ms % 60000 == 0)
		(void)snprintf(dst, UNITS_TEXT, "%" PRIu64 "m", ms / 60000);
	else
		(void)snprintf(dst, UNITS_TEXT, "%" PRIu64 "s", ms / 1000);
	if (ms >= 1000 && ms % 1000 != 0) { /* 1.500s -> 1.5s */
		char *end = dst + strlen(dst) - 1;

		while (end[-1] == '0')
			end--;
		end[0] = 's';
		end[1] = '\0';
	}
	return dst;
}

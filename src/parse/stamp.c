#include "parse/stamp.h"

#include "base/decimal.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

static char *put(char *at, int v, size_t width, char next)
{
	at += decimal_put(at, (uint64_t)v, width);
	*at = next;
	return at + 1;
}

const char *stamp_text(int64_t s, uint32_t ns, unsigned digits, char dst[STAMP_SIZE])
{
	time_t at = (time_t)s;
	char *p = dst;
	struct tm tm;

	if (gmtime_r(&at, &tm) == NULL || tm.tm_year < -1900 || tm.tm_year > 9999 - 1900)
		(void)gmtime_r(&(time_t){0}, &tm);
	p = put(p, tm.tm_year + 1900, 4, '-');
	p = put(p, tm.tm_mon + 1, 2, '-');
	p = put(p, tm.tm_mday, 2, 'T');
	p = put(p, tm.tm_hour, 2, ':');
	p = put(p, tm.tm_min, 2, ':');
	p = put(p, tm.tm_sec, 2, '.');
	(void)decimal_put(p, ns % 1000000000, 9);
	p += digits == 0 ? -1 : digits < 9 ? (int)digits : 9;
	memcpy(p, "Z", 2);
	return dst;
}

const char *stamp_ms(int64_t ms, char dst[STAMP_SIZE])
{
	int64_t rest = ms % 1000;

	rest += rest < 0 ? 1000 : 0;
	return stamp_text((ms - rest) / 1000, (uint32_t)rest * 1000000, 3, dst);
}

/* Read from clients, daemons and sandboxes: any bytes. Stricter than strptime(3), which takes spaces and single digits. */

/* n digits and what follows them, in *at; at most max. */
static bool number(const char **at, int n, const char *next, int max, int *ret)
{
	*ret = 0;
	for (; n > 0; n--, (*at)++) {
		if (**at < '0' || **at > '9')
			return false;
		*ret = *ret * 10 + (**at - '0');
	}
	if (strncmp(*at, next, strlen(next)) != 0)
		return false;
	*at += strlen(next);
	return *ret <= max;
}

static int64_t fraction(const char **at)
{
	int64_t ms = 0, scale = 100;

	for ((*at)++; **at >= '0' && **at <= '9'; (*at)++, scale /= 10)
		ms += (**at - '0') * scale;
	return ms;
}

/* Minutes east of Greenwich, and nothing behind. */
static bool offset(const char *p, int *ret)
{
	const char sign = *p;
	int hours = 0, minutes = 0;

	*ret = 0;
	if (strcmp(p, "Z") == 0 || strcmp(p, "z") == 0)
		return true;
	p++;
	if ((sign != '+' && sign != '-') || !number(&p, 2, ":", 23, &hours) || !number(&p, 2, "", 59, &minutes) || *p != '\0')
		return false;
	*ret = (hours * 60 + minutes) * (sign == '+' ? 1 : -1);
	return true;
}

int stamp_read(const char *text, int64_t *ret_ms)
{
	struct tm tm = {.tm_year = 0};
	const char *p = text;
	int64_t ms = 0, s;
	int east, day;

	if (!number(&p, 4, "-", 9999, &tm.tm_year) || !number(&p, 2, "-", 12, &tm.tm_mon) || !number(&p, 2, "T", 31, &tm.tm_mday) ||
	    !number(&p, 2, ":", 23, &tm.tm_hour) || !number(&p, 2, ":", 59, &tm.tm_min) || !number(&p, 2, "", 60, &tm.tm_sec))
		return -EINVAL;
	if (*p == '.')
		ms = fraction(&p);
	if (!offset(p, &east) || tm.tm_mon == 0 || tm.tm_mday == 0)
		return -EINVAL;
	tm.tm_year -= 1900;
	tm.tm_mon--;
	day = tm.tm_mday;
	if (tm.tm_sec == 60) { /* a leap second, which has no number of its own */
		tm.tm_sec = 59;
		ms = 999;
	}
	s = (int64_t)timegm(&tm);
	if (tm.tm_mday != day) /* February has no 30th */
		return -EINVAL;
	*ret_ms = (s - (int64_t)east * 60) * 1000 + ms;
	return 0;
}

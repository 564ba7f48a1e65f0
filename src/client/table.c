#include "client/client.h"

#include "base/num.h"
#include "base/quote.h"
#include "parse/stamp.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Cells hold what a daemon or sandbox says: only their quoted form is kept. */

static void add(struct table *t, const char *quoted)
{
	if (t->n == t->cap) {
		size_t cap = t->cap == 0 ? 64 : 2 * t->cap;
		char **v = reallocarray(t->cell, cap, sizeof(*v));

		if (v == NULL) {
			t->failed = true;
			return;
		}
		t->cell = v;
		t->cap = cap;
	}
	t->cell[t->n] = strdup(quoted);
	if (t->cell[t->n] == NULL)
		t->failed = true;
	else
		t->n++;
}

void table_cell(struct table *t, const char *text)
{
	char q[QUOTE_MAX];

	add(t, quote_bare(text, q));
}

void table_cellf(struct table *t, const char *fmt, ...)
{
	char text[128];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	table_cell(t, text);
}

int table_print(struct table *t, struct err *e)
{
	size_t rows = t->cols > 0 ? t->n / t->cols : 0;
	int r = t->failed ? err_no_memory(e) : 0;

	for (size_t i = 0; r == 0 && i < rows; i++) {
		for (unsigned c = 0; c < t->cols; c++) {
			size_t width = 0;

			for (size_t k = 0; k < rows && c + 1 < t->cols; k++)
				width = MAX(width, strlen(t->cell[k * t->cols + c]));
			(void)printf("%s%-*s", c > 0 ? "  " : "", (int)width,
				     t->cell[i * t->cols + c]);
		}
		(void)putchar('\n');
	}
	table_done(t);
	return r < 0 ? r : client_flush(e);
}

void table_done(struct table *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->cell[i]);
	free(t->cell);
	*t = (struct table){.cols = t->cols};
}

/* ---- times and sizes ---- */

int64_t client_now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t client_time(const char *stamp)
{
	int64_t ms = -1;

	return stamp != NULL && stamp_read(stamp, &ms) == 0 && ms >= 0 ? ms : -1;
}

const char *client_span(int64_t ms, char dst[SPAN_TEXT])
{
	static const struct {
		int64_t ms;
		char unit;
	} units[] = {{86400000, 'd'}, {3600000, 'h'}, {60000, 'm'}, {1000, 's'}};
	size_t i = 0;

	if (ms < 0)
		ms = 0;
	while (i + 1 < ARRAY_LEN(units) && ms < 2 * units[i].ms) /* "90s" says more than "1m" */
		i++;
	(void)snprintf(dst, SPAN_TEXT, "%" PRId64 "%c", ms / units[i].ms, units[i].unit);
	return dst;
}

const char *client_size(uint64_t bytes, char dst[SPAN_TEXT])
{
	static const char units[] = "BKMGTPE";
	uint64_t rest = 0;
	size_t i = 0;

	for (; bytes >= 1024 && units[i + 1] != '\0'; i++) {
		rest = bytes % 1024;
		bytes /= 1024;
	}
	if (bytes < 10 && i > 0)
		(void)snprintf(dst, SPAN_TEXT, "%" PRIu64 ".%" PRIu64 "%c", bytes, rest * 10 / 1024,
			       units[i]);
	else
		(void)snprintf(dst, SPAN_TEXT, "%" PRIu64 "%c", bytes, units[i]);
	return dst;
}

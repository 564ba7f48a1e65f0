/* The answer of process.Process/Start as brig-client reads it, in pieces whose sizes the first byte
 * chooses; and the rows of lists. The same bytes in one piece must be taken in the same way. */
#include "client/boxes.h"
#include "client/events.h"

#include <stdlib.h>
#include <string.h>

struct seen {
	uint64_t bytes, sum;
	unsigned starts;
};

static void on_start(void *arg, uint32_t pid)
{
	struct seen *s = arg;

	(void)pid;
	s->starts++;
}

static int on_data(void *arg, enum event_channel chan, const uint8_t *p, size_t n)
{
	struct seen *s = arg;

	if (s->starts != 1 || n == 0 || chan > EVENT_PTY)
		abort();
	s->bytes += n;
	for (size_t i = 0; i < n; i++)
		s->sum = s->sum * 31 + p[i];
	return 0;
}

static int read_all(const uint8_t *p, size_t n, size_t step, struct events *ev, struct seen *s)
{
	int r = 0;

	*s = (struct seen){.starts = 0};
	*ev = (struct events){.start = on_start, .data = on_data, .arg = s};
	events_init(ev);
	for (size_t at = 0; r == 0 && at < n; at += step)
		r = events_feed(ev, p + at, n - at < step ? n - at : step);
	if (ev->exit_code < -1 || ev->exit_code > 255 || ev->signal < 0 || ev->signal > 127)
		abort();
	events_done(ev);
	return r;
}

static void row(const uint8_t *p, size_t n)
{
	json_t *o = json_loadb((const char *)p, n, JSON_REJECT_DUPLICATES, NULL);
	struct box_row b;
	struct box_use u;

	if (box_row_read(o, &b) == 0 &&
	    (strlen(b.id) > 64 || b.template == NULL || b.state == NULL || b.tier == NULL))
		abort();
	if (box_use_read(o, &u) == 0 && !(u.cpu_pct >= 0 && u.cpu_pct < 1e6))
		abort();
	json_decref(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct events a, b;
	struct seen x, y;

	if (n == 0)
		return 0;
	if (read_all(p + 1, n - 1, n, &a, &x) == 0 &&
	    (read_all(p + 1, n - 1, (size_t)p[0] + 1, &b, &y) < 0 || x.bytes != y.bytes ||
	     x.sum != y.sum || a.ended != b.ended || a.closed != b.closed))
		abort();
	row(p + 1, n - 1);
	return 0;
}

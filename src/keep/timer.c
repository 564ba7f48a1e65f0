#include "keep/timer.h"

#include <stddef.h>

/* Some hundreds at most: one for a stream's keepalive, one for its deadline, few others. */

void timer_clear(struct timers *ts, struct timer *t)
{
	struct timer **at = &ts->first;

	if (t->at_ms == 0)
		return;
	while (*at != NULL && *at != t)
		at = &(*at)->next;
	if (*at != NULL)
		*at = t->next;
	t->at_ms = 0;
}

void timer_set(struct timers *ts, struct timer *t, uint64_t at_ms)
{
	timer_clear(ts, t);
	t->at_ms = at_ms > 0 ? at_ms : 1;
	t->next = ts->first;
	ts->first = t;
}

static struct timer *due(const struct timers *ts, uint64_t now_ms)
{
	struct timer *t = ts->first;

	while (t != NULL && t->at_ms > now_ms)
		t = t->next;
	return t;
}

void timer_run(struct timers *ts, uint64_t now_ms)
{
	struct timer *t;

	while ((t = due(ts, now_ms)) != NULL) {
		timer_clear(ts, t);
		t->fire(t);
	}
}

int timer_wait(const struct timers *ts, uint64_t now_ms)
{
	uint64_t left, least = UINT64_MAX;

	for (const struct timer *t = ts->first; t != NULL; t = t->next) {
		left = t->at_ms > now_ms ? t->at_ms - now_ms : 0;
		if (left < least)
			least = left;
	}
	if (least == UINT64_MAX)
		return -1;
	return least > 60000 ? 60000 : (int)least;
}

#pragma once
/* Things to be done at a time: a short list, looked through at every turn. */
#include <stdbool.h>
#include <stdint.h>

struct timer {
	struct timer *next;
	uint64_t at_ms;		       /* by loop_clock_ms; 0 = not set */
	void (*fire)(struct timer *t); /* it is not set any more by then */
};
struct timers {
	struct timer *first;
};

/* Set, or set anew. *t stays where it is until it has fired or was cleared. */
void timer_set(struct timers *ts, struct timer *t, uint64_t at_ms);
void timer_clear(struct timers *ts, struct timer *t); /* also one that is not set */
/* Fire what is due. */
void timer_run(struct timers *ts, uint64_t now_ms);
/* Milliseconds until the next, -1 = there is none. */
int timer_wait(const struct timers *ts, uint64_t now_ms);

#pragma once
/*
 * The sandbox's figures over time: a ring of the newest SAMPLES_MAX, one each SAMPLE_MS while the sandbox is not paused. It
 * is the keeper that holds them, so they outlive brigd and go with the sandbox.
 */
#include "keep/timer.h"
#include "spawn/runner.h"

#include <jansson.h>

struct keep;

enum { SAMPLES_MAX = 360, SAMPLE_MS = 10000 };

struct sample {
	uint64_t at_ms; /* since the epoch */
	uint64_t cpu_us, memory, cache, disk;
};

struct samples {
	struct timer timer;
	struct sample *ring;  /* owned; NULL = none yet */
	uint32_t n, next;     /* how many there are; where the next one goes */
	struct info *looking; /* info.c's: one is being taken; owned */
};

/* The first is taken SAMPLE_MS from now. */
void samples_begin(struct keep *k);
void samples_done(struct keep *k);
/* One is there: keep it, and take the next in its time. n: NULL = it could not be had. */
void samples_take(struct keep *k, const struct runner_now *n);
/* [[at_ms, cpu_us, memory, cache, disk], ...], oldest first, `now` the last. NULL = out of memory. */
json_t *samples_json(const struct keep *k, const struct runner_now *now);

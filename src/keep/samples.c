#include "keep/samples.h"

#include "base/num.h"
#include "keep/info.h"
#include "keep/priv.h"

#include <stdlib.h>
#include <time.h>

/* Numbers are the runner's, the disk's the agent's: they are kept and told, nothing is decided by them. */

static struct sample sample_of(const struct keep *k, const struct runner_now *n)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (struct sample){.at_ms = (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000,
			       .cpu_us = n->cpu_us,
			       .memory = n->memory,
			       .cache = n->cache,
			       .disk = k->disk_used};
}

static void next_in(struct keep *k, uint64_t ms) { timer_set(&k->timers, &k->samples.timer, loop_clock_ms() + ms); }

static void on_time(struct timer *t)
{
	struct keep *k = (struct keep *)(void *)((char *)t - offsetof(struct keep, samples.timer));

	if (k->paused)
		next_in(k, SAMPLE_MS); /* nothing happens in it */
	else
		info_sample(k);
}

void samples_begin(struct keep *k)
{
	k->samples.timer.fire = on_time;
	next_in(k, SAMPLE_MS);
}

void samples_done(struct keep *k)
{
	timer_clear(&k->timers, &k->samples.timer);
	info_stop(k);
	free(k->samples.ring);
}

void samples_take(struct keep *k, const struct runner_now *n)
{
	struct samples *s = &k->samples;

	next_in(k, SAMPLE_MS);
	if (s->ring == NULL)
		s->ring = calloc(SAMPLES_MAX, sizeof(*s->ring));
	if (s->ring == NULL || n == NULL)
		return;
	s->ring[s->next] = sample_of(k, n);
	s->next = (s->next + 1) % SAMPLES_MAX;
	s->n = MIN(s->n + 1, (uint32_t)SAMPLES_MAX);
}

static int add(json_t *list, const struct sample *s)
{
	return json_array_append_new(list, json_pack("[I,I,I,I,I]", (json_int_t)s->at_ms, (json_int_t)s->cpu_us,
						     (json_int_t)s->memory, (json_int_t)s->cache, (json_int_t)s->disk));
}

json_t *samples_json(const struct keep *k, const struct runner_now *now)
{
	const struct samples *s = &k->samples;
	struct sample last = sample_of(k, now);
	json_t *list = json_array();
	int r = list == NULL ? -1 : 0;

	for (uint32_t i = 0; r == 0 && i < s->n; i++)
		r = add(list, &s->ring[(s->next + SAMPLES_MAX - s->n + i) % SAMPLES_MAX]);
	if (r == 0)
		r = add(list, &last);
	if (r < 0) {
		json_decref(list);
		return NULL;
	}
	return list;
}

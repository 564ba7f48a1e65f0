#include "keep/info.h"
#include "keep/priv.h"
#include "keep/query.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/*
 * GET /control/stat, /control/samples, /envd/metrics, /envd/envs. Processor and memory are the sandbox's cgroups', by
 * its runner; the disk is what the agent says of the sandbox's own file system, and while that is
 * paused what it said last.
 */

enum info_what { STAT, METRICS, SAMPLES };

struct info {
	struct query q;
	struct talk *t; /* NULL = for the ring */
	enum info_what what;
};

static void info_free(struct talk *t)
{
	struct info *i = t->arg;

	t->ops = NULL;
	t->arg = NULL;
	query_drop(&i->q);
	free(i);
}

static const struct talk_ops ops = {.closed = info_free};

static uint32_t processors(const struct spec *s)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	uint32_t ours = (s->cpu_milli + 999) / 1000, all = n > 0 ? (uint32_t)n : 1;

	return ours != 0 && ours < all ? ours : all;
}

static uint64_t memory_total(const struct spec *s)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

	return s->memory != 0 || pages <= 0 || size <= 0 ? s->memory
							 : (uint64_t)pages * (uint64_t)size;
}

/* Percent of one processor since the last call. */
static double cpu_used(struct keep *k, uint64_t cpu_us)
{
	uint64_t now = loop_clock_ms(), spent = now - k->cpu_at_ms;
	double ret = 0;

	if (k->cpu_at_ms != 0 && spent > 0 && cpu_us >= k->cpu_us)
		ret = (double)(cpu_us - k->cpu_us) / 10.0 / (double)spent;
	k->cpu_at_ms = now;
	k->cpu_us = cpu_us;
	return ret;
}

static json_t *metrics(struct keep *k, const struct runner_now *n)
{
	uint64_t total = memory_total(k->a->spec);

	return json_pack("{s:I, s:i, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "ts",
			 (json_int_t)time(NULL), "cpu_count", (int)processors(k->a->spec),
			 "cpu_used_pct", cpu_used(k, n->cpu_us), "mem_total", (json_int_t)total,
			 "mem_used", (json_int_t)n->memory, "mem_cache", (json_int_t)n->cache,
			 "mem_total_mib", (json_int_t)(total >> 20), "mem_used_mib",
			 (json_int_t)(n->memory >> 20), "disk_used", (json_int_t)k->disk_used,
			 "disk_total", (json_int_t)k->disk_total);
}

static json_t *stat_of(const struct keep *k, const struct runner_now *n)
{
	return json_pack("{s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:I, s:I}", "state",
			 k->paused ? "paused" : "running", "claimed", (int)k->claimed, "cpu_us",
			 (json_int_t)n->cpu_us, "mem_used", (json_int_t)n->memory, "mem_cache",
			 (json_int_t)n->cache, "mem_total", (json_int_t)memory_total(k->a->spec),
			 "disk_used", (json_int_t)k->disk_used, "disk_total",
			 (json_int_t)k->disk_total, "cpu_count", (int)processors(k->a->spec),
			 "pids", (json_int_t)n->pids, "deadline_ms", (json_int_t)k->deadline_ms);
}

static json_t *samples_of(const struct keep *k, const struct runner_now *n)
{
	json_t *list = samples_json(k, n);

	return list == NULL ? NULL
			    : json_pack("{s:i, s:I, s:I, s:o}", "cpu_count", (int)processors(k->a->spec), "mem_total",
					(json_int_t)memory_total(k->a->spec), "disk_total", (json_int_t)k->disk_total,
					"samples", list);
}

static void answer(struct talk *t, enum info_what what)
{
	struct runner_now n = {.cpu_us = 0};
	struct err e = ERR_INIT;

	if (runner_now(t->k->a->runner, &n, &e) < 0)
		fail_status(t, 500, "%s", e.msg);
	else
		talk_json(t, 200, what == METRICS ? metrics(t->k, &n) : what == SAMPLES ? samples_of(t->k, &n) : stat_of(t->k, &n));
}

static void sampled(struct keep *k)
{
	struct runner_now n = {.cpu_us = 0};
	int r = runner_now(k->a->runner, &n, NULL);

	samples_take(k, r == 0 ? &n : NULL);
}

static void take_disk(struct keep *k, const struct buf *out)
{
	struct msg_reader m;
	struct msg_item it;
	int i = 0;

	if (record_next(buf_head(out), out->len, &m) <= 0)
		return;
	while (msg_next(&m, &it) > 0) {
		if (it.field != F_VALUE)
			continue;
		if (i == METRIC_DISK_USED)
			k->disk_used = it.u64;
		if (i == METRIC_DISK_TOTAL)
			k->disk_total = it.u64;
		i++;
	}
}

static void on_agent(struct query *q, const struct stream_result *r)
{
	struct info *i = (struct info *)q;
	struct keep *k = q->k;
	struct talk *t = i->t;
	enum info_what what = i->what;

	if (r->how == HOW_DONE && !q->too_long)
		take_disk(k, &q->out);
	if (t == NULL) {
		info_stop(k);
		sampled(k);
		return;
	}
	info_free(t);
	answer(t, what);
}

/* Ask the agent; false: it cannot be asked. */
static bool look(struct keep *k, struct info *i)
{
	struct buf req;
	struct msg_writer w = query_begin(&req, REQ_METRICS, 0, NULL);
	int r = w.err < 0 ? w.err : query_open(k, &i->q, &req, MSG_RECORD_MAX + 4, on_agent, NULL);

	buf_done(&req);
	return r == 0;
}

static void ask(struct talk *t, enum info_what what)
{
	struct info *i = t->k->paused ? NULL : calloc(1, sizeof(*i));

	if (i == NULL) {
		answer(t, what);
		return;
	}
	i->t = t;
	i->what = what;
	t->ops = &ops;
	t->arg = i;
	if (!look(t->k, i)) {
		info_free(t);
		answer(t, what);
	}
}

void info_sample(struct keep *k)
{
	struct info *i = k->samples.looking == NULL ? calloc(1, sizeof(*i)) : NULL;

	if (i == NULL) {
		sampled(k);
		return;
	}
	k->samples.looking = i;
	if (!look(k, i)) {
		info_stop(k);
		sampled(k);
	}
}

void info_stop(struct keep *k)
{
	struct info *i = k->samples.looking;

	k->samples.looking = NULL;
	if (i != NULL)
		query_drop(&i->q);
	free(i);
}

void control_stat(struct talk *t, json_t *req)
{
	(void)req;
	ask(t, STAT);
}

void control_samples(struct talk *t, json_t *req)
{
	(void)req;
	ask(t, SAMPLES);
}

void envd_metrics(struct talk *t, json_t *req)
{
	(void)req;
	ask(t, METRICS);
}

void envd_envs(struct talk *t, json_t *req)
{
	(void)req;
	talk_json(t, 200, json_incref(t->k->env));
}

/*
 * Figures of sandboxes, asked of their keepers when somebody wants them. What a keeper says is checked field by field.
 *
 * One sandbox: its samples of the last hour (src/keep/samples.h) that lie in the range asked for. Several: one figure each,
 * asked one after another, and those that do not answer in MANY_MS altogether are left out.
 */
#include "api/request.h"

#include "base/num.h"
#include "parse/stamp.h"
#include "parse/uri.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY_MAX = 100, WAIT_MS = 5000, MANY_MS = 10000, SAMPLES_TOLD_MAX = 1000 };

struct figure {
	int64_t at_ms;
	uint64_t cpu_us, memory, cache, disk;
};

static json_int_t positive(json_int_t n) { return n > 0 ? n : 0; }
static json_int_t number(const json_t *o, const char *key) { return positive(json_integer_value(json_object_get(o, key))); }

/* before: of the processor, at that moment. all: what does not change. */
static json_t *metric(const struct figure *f, const struct figure *before, const json_t *all)
{
	char at[STAMP_SIZE];
	double pct = f->at_ms > before->at_ms && f->cpu_us >= before->cpu_us
			 ? (double)(f->cpu_us - before->cpu_us) / 10.0 / (double)(f->at_ms - before->at_ms)
			 : 0.0;

	(void)stamp_ms(f->at_ms, at);
	return json_pack("{s:s,s:I,s:I,s:f,s:I,s:I,s:I,s:I,s:I}", "timestamp", at, "timestampUnix",
			 (json_int_t)(f->at_ms / 1000), "cpuCount", number(all, "cpu_count"), "cpuUsedPct", pct, "memUsed",
			 (json_int_t)f->memory, "memTotal", number(all, "mem_total"), "memCache", (json_int_t)f->cache,
			 "diskUsed", (json_int_t)f->disk, "diskTotal", number(all, "disk_total"));
}

static int ask(struct request *q, const struct box *b, const char *target, uint64_t limit_ms, ask_done_fn *done)
{
	char path[128];
	int r = daemon_socket(q->d, b, path, sizeof(path));

	return r < 0 ? r : ask_json_open(&q->d->asks, &q->d->loop, path, "GET", target, NULL, limit_ms, done, q);
}

/* ---- one ---- */

static bool read_sample(const json_t *v, struct figure *ret)
{
	if (json_array_size(v) != 5)
		return false;
	*ret = (struct figure){.at_ms = positive(json_integer_value(json_array_get(v, 0))),
			       .cpu_us = (uint64_t)positive(json_integer_value(json_array_get(v, 1))),
			       .memory = (uint64_t)positive(json_integer_value(json_array_get(v, 2))),
			       .cache = (uint64_t)positive(json_integer_value(json_array_get(v, 3))),
			       .disk = (uint64_t)positive(json_integer_value(json_array_get(v, 4)))};
	return ret->at_ms <= REQUEST_TIME_MAX_MS;
}

static bool second(struct request *q, const char *name, int64_t otherwise, int64_t *ret)
{
	char v[24], *end;
	int r = uri_get(uri_query(q->target), name, v, sizeof(v));

	*ret = otherwise;
	if (r == -ENOENT)
		return true;
	*ret = r > 0 && v[0] >= '0' && v[0] <= '9' ? strtoll(v, &end, 10) : -1;
	if (*ret >= 0 && *end == '\0')
		return true;
	reply_error(q, 400, "%s: seconds since 1970 are wanted", name);
	return false;
}

static void told(void *owner, unsigned status, const json_t *answer)
{
	struct request *q = owner;
	const struct box *b = box_find(&q->d->boxes, q->word);
	const json_t *list = json_object_get(answer, "samples");
	struct figure f, before;
	int64_t start, end;
	json_t *out;
	size_t i, n = MIN(json_array_size(list), (size_t)SAMPLES_TOLD_MAX);
	int r;

	if (b == NULL || status != 200 || !json_is_array(list)) {
		reply_error(q, b == NULL ? 404 : 502, "the sandbox does not answer");
		return;
	}
	if (!second(q, "start", 0, &start) || !second(q, "end", INT64_MAX, &end))
		return;
	before = (struct figure){.at_ms = b->started_ms};
	out = json_array();
	r = out == NULL ? -1 : 0;
	for (i = 0; r == 0 && i < n; i++) {
		if (!read_sample(json_array_get(list, i), &f))
			continue;
		/* what it was before, in the pool, is nobody's, and only says where its processor time began */
		if ((!b->warm || f.at_ms >= b->started_ms) && f.at_ms / 1000 >= start && f.at_ms / 1000 <= end)
			r = json_array_append_new(out, metric(&f, &before, answer));
		before = f;
	}
	if (r < 0) {
		json_decref(out);
		out = NULL;
	}
	reply_json(q, 200, out);
}

void h_metrics(struct request *q, json_t *body)
{
	const struct box *b = request_box(q);
	int64_t start, end;

	(void)body;
	if (b == NULL || !second(q, "start", 0, &start) || !second(q, "end", INT64_MAX, &end))
		return;
	memcpy(q->word, b->id, sizeof(b->id));
	if (ask(q, b, "/control/samples", WAIT_MS, told) < 0)
		reply_error(q, 502, "the sandbox does not answer");
}

/* ---- several ---- */

static void next(struct request *q);

static void told_one(void *owner, unsigned status, const json_t *stat)
{
	struct request *q = owner;
	struct box *b = box_find(&q->d->boxes, q->word);
	struct figure f, before;

	if (b != NULL && status == 200 && json_is_object(stat)) {
		f = (struct figure){.at_ms = daemon_now_ms(),
				    .cpu_us = (uint64_t)number(stat, "cpu_us"),
				    .memory = (uint64_t)number(stat, "mem_used"),
				    .cache = (uint64_t)number(stat, "mem_cache"),
				    .disk = (uint64_t)number(stat, "disk_used")};
		before = (struct figure){.at_ms = b->sample_ms != 0 ? b->sample_ms : b->started_ms, .cpu_us = b->sample_cpu_us};
		if (b->sample_ms == 0 && b->warm)
			before = f; /* how much of it was used since the claim is not known */
		(void)json_object_set_new(q->found, b->id, metric(&f, &before, stat));
		b->sample_ms = f.at_ms;
		b->sample_cpu_us = f.cpu_us;
	}
	next(q);
}

bool request_ask_next(struct request *q, const char *target, uint64_t limit_ms, request_wants_fn *wants, ask_done_fn *done)
{
	const struct box *b;
	const char *id;

	while ((id = strsep(&q->names, ",")) != NULL && loop_clock_ms() < q->until_ms) {
		b = box_find(&q->d->boxes, id);
		if (b == NULL || (wants != NULL && !wants(q, b)))
			continue;
		memcpy(q->word, b->id, sizeof(b->id));
		if (ask(q, b, target, limit_ms, done) == 0)
			return true;
	}
	return false;
}

/* Those that are nobody's, or another's, are left out. */
static bool wants(const struct request *q, const struct box *b)
{
	return strcmp(b->tenant, q->who.tenant) == 0 && (b->state == BOX_RUNNING || b->state == BOX_PAUSED) &&
	       json_object_get(q->found, b->id) == NULL;
}

static void next(struct request *q)
{
	if (!request_ask_next(q, "/control/stat", WAIT_MS, wants, told_one))
		reply_json(q, 200, json_pack("{s:O}", "sandboxes", q->found));
}

void h_metrics_many(struct request *q, json_t *body)
{
	enum { SIZE = MANY_MAX * BOX_ID_SIZE };
	size_t commas = 0;

	(void)body;
	q->list = malloc(SIZE);
	q->found = json_object();
	if (q->list == NULL || q->found == NULL) {
		reply_error(q, 500, "out of memory");
		return;
	}
	if (uri_get(uri_query(q->target), "sandbox_ids", q->list, SIZE) <= 0) {
		reply_error(q, 400, "sandbox_ids: 1 to %d ids with commas between them are wanted", MANY_MAX);
		return;
	}
	for (const char *p = q->list; *p != '\0'; p++)
		commas += *p == ',';
	if (commas >= MANY_MAX) {
		reply_error(q, 400, "sandbox_ids: at most %d at a time", MANY_MAX);
		return;
	}
	q->names = q->list;
	q->until_ms = loop_clock_ms() + MANY_MS;
	next(q);
}

/*
 * Figures of sandboxes, asked of their keepers when somebody wants them, and brigd's own for Prometheus. There is no history:
 * a list of samples has one, taken now. What the keeper says is checked field by field.
 */
#include "api/request.h"

#include "base/buf.h"
#include "parse/uri.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY_MAX = 100, WAIT_MS = 5000 };

static json_int_t number(const json_t *o, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(o, key));

	return n > 0 ? n : 0;
}

static json_t *sample(struct box *b, const json_t *stat)
{
	int64_t now = daemon_now_ms();
	uint64_t cpu = (uint64_t)number(stat, "cpu_us");
	int64_t from = b->sample_ms != 0 ? b->sample_ms : b->started_ms;
	double pct = now > from && cpu >= b->sample_cpu_us
			 ? (double)(cpu - b->sample_cpu_us) / 10.0 / (double)(now - from)
			 : 0.0;
	char at[STAMP_SIZE];

	b->sample_ms = now;
	b->sample_cpu_us = cpu;
	stamp(now, at);
	return json_pack("{s:s,s:I,s:I,s:f,s:I,s:I,s:I,s:I,s:I}", "timestamp", at, "timestampUnix",
			 (json_int_t)(now / 1000), "cpuCount", number(stat, "cpu_count"), "cpuUsedPct", pct, "memUsed",
			 number(stat, "mem_used"), "memTotal", number(stat, "mem_total"), "memCache",
			 number(stat, "mem_cache"), "diskUsed", number(stat, "disk_used"), "diskTotal",
			 number(stat, "disk_total"));
}

static void told(void *owner, unsigned status, const json_t *stat)
{
	struct request *q = owner;
	struct box *b = box_find(&q->d->boxes, q->word);
	json_t *s;

	if (b == NULL || status != 200 || !json_is_object(stat)) {
		reply_error(q, b == NULL ? 404 : 502, "the sandbox does not answer");
		return;
	}
	s = sample(b, stat);
	reply_json(q, 200, q->v2 ? json_pack("{s:{s:o}}", "sandboxes", b->id, s) : json_pack("[o]", s));
}

/* Ask the keeper; the answer comes to told. as_map: the shape of GET /sandboxes/metrics. */
static void ask(struct request *q, struct box *b, bool as_map)
{
	char path[128];
	int r = daemon_socket(q->d, b, path, sizeof(path));

	memcpy(q->word, b->id, sizeof(b->id));
	q->v2 = as_map;
	if (r == 0)
		r = ask_json_open(&q->d->asks, &q->d->loop, path, "GET", "/control/stat", NULL, WAIT_MS, told, q);
	if (r < 0)
		reply_error(q, 502, "the sandbox does not answer");
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

void h_metrics(struct request *q, json_t *body)
{
	struct box *b = request_box(q);
	int64_t start, end, now = daemon_now_ms() / 1000;

	(void)body;
	if (b == NULL || !second(q, "start", 0, &start) || !second(q, "end", INT64_MAX, &end))
		return;
	if (start > now || end < now)
		reply_json(q, 200, json_array()); /* the one sample there is lies outside */
	else
		ask(q, b, false);
}

void h_metrics_many(struct request *q, json_t *body)
{
	char ids[MANY_MAX * BOX_ID_SIZE];
	struct box *b;

	(void)body;
	if (uri_get(uri_query(q->target), "sandbox_ids", ids, sizeof(ids)) <= 0) {
		reply_error(q, 400, "sandbox_ids is missing");
		return;
	}
	if (strchr(ids, ',') != NULL) {
		reply_error(q, 400, "sandbox_ids: one sandbox at a time");
		return;
	}
	b = box_find(&q->d->boxes, ids);
	if (b == NULL || strcmp(b->tenant, q->who.tenant) != 0 || (b->state != BOX_RUNNING && b->state != BOX_PAUSED))
		reply_json(q, 200, json_pack("{s:{}}", "sandboxes"));
	else
		ask(q, b, true);
}

/* Figures of the daemon in Prometheus' text format, version 0.0.4. */
#include "api/request.h"

#include "base/buf.h"
#include "daemon/denials.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ONE_MS = 500, ALL_MS = 2000 };

static void line(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void line(struct buf *b, const char *fmt, ...)
{
	char text[256];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n > 0 && (size_t)n < sizeof(text) && buf_put(b, text, (size_t)n) < 0)
		b->max = 0; /* seen below: nothing fits any more */
}

static void counter(struct buf *b, const char *name, const char *text, uint64_t v)
{
	line(b, "# HELP brig_%s_total %s\n# TYPE brig_%s_total counter\nbrig_%s_total %llu\n", name, text, name, name,
	     (unsigned long long)v);
}

static void gauges(struct buf *b, const struct daemon *d)
{
	line(b, "# HELP brig_sandboxes sandboxes that live\n# TYPE brig_sandboxes gauge\n");
	for (int s = 0; s < BOX_STATES; s++)
		line(b, "brig_sandboxes{tier=\"container\",state=\"%s\"} %u\n", box_state_word((enum box_state)s),
		     d->boxes.count[s]);
	line(b, "# HELP brig_sandboxes_ready those of the pool whose first calls wait for nothing\n"
		"# TYPE brig_sandboxes_ready gauge\nbrig_sandboxes_ready %u\n", pool_ready(d));
	line(b, "# HELP brig_sandboxes_max as many may live\n# TYPE brig_sandboxes_max gauge\nbrig_sandboxes_max %u\n",
	     d->config->max_sandboxes);
	line(b, "# HELP brig_spawn_connected whether brig-spawn is there\n# TYPE brig_spawn_connected gauge\n"
		"brig_spawn_connected %d\n", spawner_up(&d->spawner));
}

static void starts(struct buf *b, const struct stats_starts *s, const char *word)
{
	uint64_t sum = 0;

	for (int i = 0; i < STATS_BUCKETS; i++) {
		sum += s->bucket[i];
		line(b, "brig_create_seconds_bucket{start=\"%s\",le=\"%g\"} %llu\n", word, stats_bucket_ms[i] / 1000.0,
		     (unsigned long long)sum);
	}
	line(b, "brig_create_seconds_bucket{start=\"%s\",le=\"+Inf\"} %llu\n", word, (unsigned long long)s->n);
	line(b, "brig_create_seconds_sum{start=\"%s\"} %.6f\nbrig_create_seconds_count{start=\"%s\"} %llu\n", word,
	     (double)s->us_sum / 1e6, word, (unsigned long long)s->n);
}

static void histogram(struct buf *b, const struct stats *s)
{
	line(b, "# HELP brig_create_seconds from the request to a sandbox that can be used; warm: one of the pool\n"
		"# TYPE brig_create_seconds histogram\n");
	starts(b, &s->start[false], "cold");
	starts(b, &s->start[true], "warm");
}

static void answer(struct request *q)
{
	struct buf b = {.max = 64 * 1024};
	const struct stats *s = &q->d->stats;

	gauges(&b, q->d);
	histogram(&b, s);
#define STAT(name, text) counter(&b, #name, text, s->name);
#include "daemon/stats.def"
#undef STAT
	if (b.max == 0)
		reply_error(q, 500, "out of memory");
	else
		reply_text(q, 200, "text/plain; version=0.0.4", (const char *)buf_head(&b), b.len);
	buf_done(&b);
}

/* ---- what gates have refused is asked of the keepers first, one after another: whom there is no time for counts next time ---- */

static void next(struct request *q);

static void told(void *owner, unsigned status, const json_t *said)
{
	struct request *q = owner;
	struct box *b = box_find(&q->d->boxes, q->word);

	if (b != NULL && status == 200)
		denials_told(q->d, b, said);
	next(q);
}

static void next(struct request *q)
{
	if (!request_ask_next(q, "/control/denied", ONE_MS, NULL, told))
		answer(q);
}

void h_prometheus(struct request *q, json_t *body)
{
	struct buf ids = {.max = SIZE_MAX / 2};
	const struct box *b = NULL;
	int r = 0;

	(void)body;
	while (r == 0 && (b = box_next(&q->d->boxes, b)) != NULL)
		if (b->state == BOX_RUNNING || b->state == BOX_PAUSED)
			r = buf_put(&ids, b->id, strlen(b->id)) < 0 ? -1 : buf_put(&ids, ",", 1);
	if (r == 0)
		q->list = ids.len > 0 ? strndup((const char *)buf_head(&ids), ids.len) : strdup("");
	buf_done(&ids);
	if (q->list == NULL) {
		reply_error(q, 500, "out of memory");
		return;
	}
	q->names = q->list;
	q->until_ms = loop_clock_ms() + ALL_MS;
	next(q);
}

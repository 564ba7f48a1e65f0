/* Figures of the daemon in Prometheus' text format, version 0.0.4. */
#include "api/request.h"

#include "base/buf.h"

#include <stdio.h>
#include <string.h>

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
	line(b, "# HELP brig_sandboxes_max as many may live\n# TYPE brig_sandboxes_max gauge\nbrig_sandboxes_max %u\n",
	     d->config->max_sandboxes);
	line(b, "# HELP brig_spawn_connected whether brig-spawn is there\n# TYPE brig_spawn_connected gauge\n"
		"brig_spawn_connected %d\n", spawner_up(&d->spawner));
}

static void histogram(struct buf *b, const struct stats *s)
{
	uint64_t sum = 0;

	line(b, "# HELP brig_create_seconds from the request to a sandbox that can be used\n"
		"# TYPE brig_create_seconds histogram\n");
	for (int i = 0; i < STATS_BUCKETS; i++) {
		sum += s->start_bucket[i];
		line(b, "brig_create_seconds_bucket{le=\"%g\"} %llu\n", stats_bucket_ms[i] / 1000.0,
		     (unsigned long long)sum);
	}
	line(b, "brig_create_seconds_bucket{le=\"+Inf\"} %llu\nbrig_create_seconds_sum %.6f\nbrig_create_seconds_count %llu\n",
	     (unsigned long long)s->start_n, (double)s->start_us_sum / 1e6, (unsigned long long)s->start_n);
}

void h_prometheus(struct request *q, json_t *body)
{
	struct buf b = {.max = 64 * 1024};
	const struct stats *s = &q->d->stats;

	(void)body;
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

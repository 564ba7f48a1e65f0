/*
 * Started sandboxes that wait for a caller. How many of a template follows the demand: twice as
 * many after one was asked for, half as many after five quiet minutes, never more than the
 * configuration says, and none is started while memory is short. They are in no row of the store: a
 * brigd that finds one it does not know ends it.
 */
#include "daemon/daemon.h"

#include "base/num.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { QUIET_MS = 5 * 60 * 1000, RETRY_MS = 5000, AT_ONCE = 2, MEMORY_PART = 8 };

struct start { /* of one that will wait */
	struct daemon *d;
	uint32_t index;
	char id[BOX_ID_SIZE];
};

static bool memory_is_short(void)
{
	FILE *f = fopen("/proc/meminfo", "re");
	char line[128];
	unsigned long long total = 0, left = 0, n;

	if (f == NULL)
		return false;
	while (fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line, "MemTotal: %llu", &n) ==
		    1) // NOLINT(cert-err34-c): the kernel's own
			total = n;
		else if (sscanf(line, "MemAvailable: %llu", &n) == 1) // NOLINT(cert-err34-c)
			left = n;
	}
	(void)fclose(f);
	return left < total / MEMORY_PART;
}

static uint32_t waiting(const struct daemon *d, const char *name)
{
	uint32_t n = 0;

	if (d->boxes.count[BOX_POOLED] == 0)
		return 0;
	for (struct box *b = box_next(&d->boxes, NULL); b != NULL; b = box_next(&d->boxes, b))
		n += b->state == BOX_POOLED && strcmp(b->template, name) == 0;
	return n;
}

struct box *pool_take(struct daemon *d, const struct config_template *t)
{
	struct pool *p = &d->pool[daemon_template_index(d, t)];
	struct box *b = NULL;

	p->used_ms = d->loop.now_ms;
	p->want = MIN(p->want * 2, t->pool);
	if (d->boxes.count[BOX_POOLED] > 0)
		for (b = box_next(&d->boxes, NULL); b != NULL; b = box_next(&d->boxes, b))
			if (b->state == BOX_POOLED && strcmp(b->template, t->name) == 0)
				break;
	return b;
}

bool pool_give_up(struct daemon *d)
{
	for (struct box *b = box_next(&d->boxes, NULL); b != NULL; b = box_next(&d->boxes, b))
		if (b->state == BOX_POOLED) {
			life_end_unknown(d, b->id);
			box_drop(&d->boxes, b);
			return true;
		}
	return false;
}

static void started(void *owner, const struct spawnd_tell *t, const char *text)
{
	struct start *s = owner;
	struct daemon *d = s->d;
	struct pool *p = &d->pool[s->index];
	struct box *b = NULL;

	(void)text;
	p->starting--;
	if (t == NULL || t->ret < 0) {
		p->retry_ms = d->loop.now_ms + RETRY_MS;
		if (t != NULL)
			daemon_say("pool of %s: %s", d->config->templates[s->index].name, t->why);
	} else if (d->stopping ||
		   d->boxes.n >= d->config->max_sandboxes || /* others were quicker */
		   (b = box_add(&d->boxes, s->id, BOX_POOLED)) == NULL) {
		life_end_unknown(d, s->id);
	} else {
		(void)snprintf(b->template, sizeof(b->template), "%s",
			       d->config->templates[s->index].name);
		b->started_ms = daemon_now_ms();
	}
	free(s);
}

static bool start(struct daemon *d, uint32_t index)
{
	struct spawnd_ask a = {.op = SPAWND_START, .tenant = "pool"};
	struct start *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return false;
	*s = (struct start){.d = d, .index = index};
	box_new_id(s->id);
	memcpy(a.id, s->id, sizeof(s->id));
	(void)snprintf(a.template, sizeof(a.template), "%s", d->config->templates[index].name);
	if (spawner_ask(&d->spawner, &a, NULL, 0, started, s) < 0) {
		free(s);
		return false;
	}
	d->pool[index].starting++;
	return true;
}

void pool_tick(struct daemon *d)
{
	bool looked = false;

	if (!spawner_up(&d->spawner) || d->folder[0] == '\0' || d->listing || d->stopping)
		return;
	for (uint32_t i = 0; i < d->config->templates_n; i++) {
		const struct config_template *t = &d->config->templates[i];
		struct pool *p = &d->pool[i];

		if (t->pool == 0 || p->retry_ms > d->loop.now_ms)
			continue;
		if (d->loop.now_ms - p->used_ms > QUIET_MS && p->want > 1) {
			p->want /= 2;
			p->used_ms = d->loop.now_ms;
		}
		while (p->starting < AT_ONCE && waiting(d, t->name) + p->starting < p->want &&
		       d->boxes.n + p->starting < d->config->max_sandboxes) {
			if (!looked && memory_is_short())
				return;
			looked = true;
			if (!start(d, i))
				return;
		}
	}
}

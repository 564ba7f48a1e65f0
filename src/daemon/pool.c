/*
 * Started sandboxes that wait for a caller. How many of a template follows the demand: twice as
 * many after one was asked for, half as many after five quiet minutes, never more than the
 * configuration says, and none is started while memory is short. They are in no row of the store: a
 * brigd that finds one it does not know ends it.
 *
 * One that was started is asked for /control/ready, whose answer comes when its first calls need to
 * wait for nothing (an interpreter takes a second of processor time for that). Until then it counts as
 * being started, and is taken only when no other is there.
 *
 * Filling up costs the processor time that whoever took one needs now, so it begins when nobody has
 * taken one for a moment, or after a while at the latest, and so many at a time that a processor is left.
 */
#include "daemon/daemon.h"

#include "base/num.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	QUIET_MS = 5 * 60 * 1000,
	RETRY_MS = 5000,
	READY_MS = 60000,   /* no answer by then: it is none that is ready */
	PAUSE_MS = 300,     /* after a take */
	PAUSE_MAX_MS = 3000, /* after the first that was not made good */
	MEMORY_PART = 8,
};

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

static uint32_t at_once(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n > 2 ? (uint32_t)n / 2 : 1;
}

/* unready: only those that do not yet say that they are ready. */
static uint32_t waiting(const struct daemon *d, const char *name, bool unready)
{
	uint32_t n = 0;

	if (d->boxes.count[BOX_POOLED] == 0)
		return 0;
	for (struct box *b = box_next(&d->boxes, NULL); b != NULL; b = box_next(&d->boxes, b))
		n += b->state == BOX_POOLED && (b->getting_ready || !unready) && strcmp(b->template, name) == 0;
	return n;
}

uint32_t pool_ready(const struct daemon *d)
{
	uint32_t n = 0;

	for (struct box *b = box_next(&d->boxes, NULL); b != NULL; b = box_next(&d->boxes, b))
		n += b->state == BOX_POOLED && b->ready;
	return n;
}

struct box *pool_take(struct daemon *d, const struct config_template *t)
{
	struct pool *p = &d->pool[daemon_template_index(d, t)];
	struct box *found = NULL;

	if (t->pool == 0)
		return NULL;
	p->used_ms = d->loop.now_ms;
	if (p->short_ms == 0)
		p->short_ms = p->used_ms;
	p->want = MIN(p->want * 2, t->pool);
	if (d->boxes.count[BOX_POOLED] > 0)
		for (struct box *b = box_next(&d->boxes, NULL); b != NULL; b = box_next(&d->boxes, b))
			if (b->state == BOX_POOLED && strcmp(b->template, t->name) == 0 &&
			    (found == NULL || b->ready)) {
				found = b;
				if (b->ready)
					break;
			}
	return found;
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

/* It has done what it can, or is gone; taken perhaps, or ended. */
static void ready(void *owner, unsigned status, const json_t *answer)
{
	struct start *s = owner;
	struct box *b = box_find(&s->d->boxes, s->id);

	(void)answer;
	if (b != NULL) {
		b->getting_ready = false;
		b->ready = status == 204; /* else it waits as it is */
	}
	free(s);
}

static void started(void *owner, const struct spawnd_tell *t, const char *text)
{
	struct start *s = owner;
	struct daemon *d = s->d;
	struct pool *p = &d->pool[s->index];
	struct box *b = NULL;
	char path[128];

	(void)text;
	p->coming--;
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
		if (daemon_socket(d, b, path, sizeof(path)) == 0 &&
		    ask_json_open(&d->asks, &d->loop, path, "GET", "/control/ready", NULL, READY_MS, ready, s) == 0) {
			b->getting_ready = true;
			return;
		}
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
	d->pool[index].coming++;
	return true;
}

/* Somebody has just taken one, and needs the processor for what he wants to do with it. */
static bool busy(const struct daemon *d, const struct pool *p)
{
	uint64_t now = d->loop.now_ms;

	return p->short_ms != 0 && now - p->used_ms < PAUSE_MS && now - p->short_ms < PAUSE_MAX_MS;
}

int pool_wait(const struct daemon *d)
{
	for (uint32_t i = 0; i < d->config->templates_n; i++)
		if (busy(d, &d->pool[i]))
			return PAUSE_MS / 4;
	return -1;
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
		if (waiting(d, t->name, false) + p->coming >= p->want)
			p->short_ms = 0;
		if (busy(d, p))
			continue;
		while (waiting(d, t->name, true) + p->coming < at_once() && waiting(d, t->name, false) + p->coming < p->want &&
		       d->boxes.n + p->coming < d->config->max_sandboxes) {
			if (!looked && memory_is_short())
				return;
			looked = true;
			if (!start(d, i))
				return;
		}
	}
}

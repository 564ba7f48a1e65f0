/*
 * What brig-spawn tells. After each connection its list is set against the table: what is in both lives on, what only the
 * table has was lost, what only the list has belongs to nobody and is ended. An end is recorded once: by
 * the first message that finds the sandbox in the table.
 */
#include "daemon/daemon.h"
#include "daemon/denials.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void forget(struct daemon *d, const char *id)
{
	struct spawnd_ask a = {.op = SPAWND_FORGET};

	(void)snprintf(a.id, sizeof(a.id), "%.32s", id);
	if (spawner_ask(&d->spawner, &a, NULL, 0, NULL, NULL) < 0)
		return; /* the next list shows it again */
}

static void record_end(struct daemon *d, const char *id, const char *text, size_t n)
{
	struct box *b = box_find(&d->boxes, id);
	json_t *end = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
	const char *how = json_string_value(json_object_get(end, "how"));
	char *line = end != NULL ? json_dumps(end, JSON_COMPACT) : NULL;

	denials_ended(d, b, id, end);
	if (b != NULL && b->state == BOX_STARTING) {
		; /* whoever creates it learns of it by the claim */
	} else if (b != NULL) {
		life_ended(d, b, b->killing ? "killed" : how != NULL ? how : "lost", line);
	}
	free(line);
	json_decref(end);
	forget(d, id);
}

static void ended(void *owner, const struct spawnd_tell *t, const char *text)
{
	record_end(owner, t->id, text, t->text_n);
}

struct question {
	struct daemon *d;
	char id[SPAWND_ID_MAX + 1];
};

static void end_told(void *owner, const struct spawnd_tell *t, const char *text)
{
	struct question *q = owner;

	if (t != NULL)
		record_end(q->d, q->id, text, t->ret == 0 ? t->text_n : 0);
	free(q);
}

static void ask_end(struct daemon *d, const char *id)
{
	struct spawnd_ask a = {.op = SPAWND_END};
	struct question *q = calloc(1, sizeof(*q));

	if (q == NULL)
		return;
	q->d = d;
	(void)snprintf(a.id, sizeof(a.id), "%.32s", id);
	(void)snprintf(q->id, sizeof(q->id), "%.32s", id);
	if (spawner_ask(&d->spawner, &a, NULL, 0, end_told, q) < 0)
		free(q);
}

static void entry(void *owner, const struct spawnd_tell *t)
{
	struct daemon *d = owner;
	struct box *b = box_find(&d->boxes, t->id);

	if (!d->listing)
		return;
	if (b != NULL)
		b->seen = true;
	if (t->value == SPAWND_OVER)
		ask_end(d, t->id);
	else if (b == NULL)
		life_end_unknown(d, t->id); /* one that still starts too: who asked for it is gone */
}

static void listed(void *owner, const struct spawnd_tell *t, const char *text)
{
	struct daemon *d = owner;
	struct box *b, *next;

	(void)text;
	d->listing = false;
	if (t == NULL || t->ret < 0)
		return; /* the next connection tries again */
	for (b = box_next(&d->boxes, NULL); b != NULL; b = next) {
		next = box_next(&d->boxes, b);
		if (!b->seen && b->state != BOX_STARTING)
			life_ended(d, b, "lost", NULL);
		else
			b->seen = false;
	}
}

static void pinged(void *owner, const struct spawnd_tell *t, const char *text)
{
	struct daemon *d = owner;
	struct spawnd_ask list = {.op = SPAWND_LIST};

	if (t == NULL)
		return;
	if (t->ret < 0 || t->value != SPAWND_VERSION || t->text_n == 0 || t->text_n >= sizeof(d->folder)) {
		daemon_say("brig-spawn is of another version: it is not used");
		spawner_close(&d->spawner);
		return;
	}
	memcpy(d->folder, text, t->text_n);
	d->folder[t->text_n] = '\0';
	for (struct box *b = box_next(&d->boxes, NULL); b != NULL; b = box_next(&d->boxes, b))
		b->seen = false;
	d->listing = spawner_ask(&d->spawner, &list, NULL, 0, listed, d) == 0;
}

static void lost(void *owner)
{
	struct daemon *d = owner;

	d->listing = false;
	if (!d->stopping)
		daemon_say("the connection to brig-spawn was lost");
}

void recover_wire(struct daemon *d)
{
	d->spawner = (struct spawner){.src = {.fd = -1}, .loop = &d->loop, .path = d->config->spawn, .ended = ended,
				      .entry = entry, .lost = lost, .owner = d};
}

void recover_hello(struct daemon *d)
{
	struct spawnd_ask ping = {.op = SPAWND_PING};

	if (spawner_ask(&d->spawner, &ping, NULL, 0, pinged, d) < 0)
		spawner_close(&d->spawner);
}

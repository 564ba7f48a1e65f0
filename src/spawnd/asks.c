#include "spawnd/priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/*
 * The operations, each checked against this process's own configuration and table; form and sizes were checked by
 * wire/spawnd.c.
 */

static uint64_t epoch_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int unknown(const char *id, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, ENOENT, "no sandbox %s", id);
}

static int check_start(struct server *s, const struct spawnd_ask *a, const struct config_template **ret, struct err *e)
{
	const struct config *c = s->a->config;

	*ret = config_template(c, a->template);
	if (*ret == NULL)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "no template %s", a->template);
	if (box_find(s, a->id) != NULL)
		return err_set(e, ERR_CONFLICT, EEXIST, "sandbox %s is there already", a->id);
	if (a->timeout_ms > c->max_timeout_ms)
		return err_set(e, ERR_INVALID, ERANGE, "timeout: longer than max_timeout");
	if (a->egress == SPAWND_EGRESS_SET && !(*ret)->any_egress)
		return err_set(e, ERR_DENIED, EPERM, "template %s: what may leave is the operator's to say", (*ret)->name);
	if (s->alive >= c->max_sandboxes)
		return err_set(e, ERR_LIMITED, EUSERS, "%u sandboxes are alive already", s->alive);
	if (s->queued_text + a->text_n > QUEUED_TEXT_MAX)
		return err_set(e, ERR_LIMITED, ENOBUFS, "too many starts wait");
	return 0;
}

/* It waits for its turn (box_turn), which may be now. */
static int start(struct server *s, const struct asker *who, const struct spawnd_ask *a, const char *text, struct err *e)
{
	const struct config_template *t = NULL;
	int r = check_start(s, a, &t, e);
	struct box *b;

	if (r < 0)
		return r;
	b = box_new(s, a->id);
	if (b == NULL)
		return err_no_memory(e);
	b->ask = malloc(sizeof(*a) + a->text_n);
	if (b->ask == NULL) {
		box_drop(b);
		return err_no_memory(e);
	}
	memcpy(b->ask, a, sizeof(*a));
	memcpy(b->ask + 1, text, a->text_n);
	b->starter = *who;
	b->time_ms = epoch_ms();
	(void)snprintf(b->template, sizeof(b->template), "%s", t->name);
	memcpy(b->tenant, a->tenant, sizeof(b->tenant));
	b->state = BOX_QUEUED;
	s->queued++;
	s->alive++;
	s->queued_text += a->text_n;
	return 0;
}

static void ping(struct server *s, const struct asker *who)
{
	struct spawnd_tell t = {.kind = SPAWND_REPLY, .seq = who->seq, .value = SPAWND_VERSION, .pid = getpid(),
				.text_n = (uint32_t)strlen(s->a->box)};

	conn_tell(s, who, &t, s->a->box);
}

static void list(struct server *s, const struct asker *who)
{
	const struct box *next;
	struct err e = ERR_INIT;

	for (const struct box *b = s->boxes; b != NULL; b = next) {
		struct spawnd_tell t = {.kind = SPAWND_ENTRY, .seq = who->seq, .pid = b->state == BOX_OVER ? 0 : b->pid,
					.time_ms = b->time_ms};

		next = b->next;
		if (b->failed)
			continue; /* its starter was told */
		t.value = b->state == BOX_OVER ? SPAWND_OVER : b->state == BOX_LIVE ? SPAWND_LIVE : SPAWND_STARTING;
		memcpy(t.id, b->id, sizeof(t.id));
		memcpy(t.template, b->template, sizeof(t.template));
		memcpy(t.tenant, b->tenant, sizeof(t.tenant));
		conn_tell(s, who, &t, NULL);
	}
	conn_reply(s, who, 0, &e);
}

static int end_of(struct server *s, const struct asker *who, const char *id, struct err *e)
{
	struct spawnd_tell t = {.kind = SPAWND_REPLY, .seq = who->seq};
	const struct box *b = box_find(s, id);
	char text[SPAWND_END_MAX + 1];
	ssize_t n;

	if (b == NULL)
		return unknown(id, e);
	if (b->state != BOX_OVER)
		return err_set(e, ERR_CONFLICT, EBUSY, "sandbox %s has not ended", id);
	n = box_read_end(s, id, text);
	t.text_n = n > 0 ? (uint32_t)n : 0;
	memcpy(t.id, b->id, sizeof(t.id));
	conn_tell(s, who, &t, text);
	return 0;
}

static int forget(struct server *s, const char *id, struct err *e)
{
	struct box *b = box_find(s, id);
	char name[BOX_FILE_MAX];

	if (b == NULL)
		return unknown(id, e);
	if (b->state != BOX_OVER)
		return err_set(e, ERR_CONFLICT, EBUSY, "sandbox %s has not ended", id);
	(void)unlinkat(s->a->box_fd, box_file(id, ".end", name), 0);
	box_drop(b);
	return 0;
}

static int kill_box(struct server *s, const char *id, struct err *e)
{
	struct box *b = box_find(s, id);

	if (b == NULL || b->state == BOX_OVER)
		return unknown(id, e);
	box_kill(b);
	return 0;
}

static int egress(struct server *s, const struct asker *who, const struct spawnd_ask *a, const char *text, struct err *e)
{
	const struct box *b = box_find(s, a->id);

	if (b == NULL || b->state != BOX_LIVE)
		return unknown(a->id, e);
	return errand_start(s, who, b, a, text, e);
}

void ask_serve(struct server *s, const struct asker *who, const struct spawnd_ask *a, const char *text)
{
	struct err e = ERR_INIT;
	int r = 0;

	switch ((enum spawnd_op)a->op) {
	case SPAWND_PING:
		ping(s, who);
		return;
	case SPAWND_START:
		r = start(s, who, a, text, &e);
		break; /* answered when it is ready */
	case SPAWND_KILL:
		r = kill_box(s, a->id, &e);
		if (r == 0)
			conn_reply(s, who, 0, &e);
		break;
	case SPAWND_LIST:
		list(s, who);
		return;
	case SPAWND_END:
		r = end_of(s, who, a->id, &e);
		break;
	case SPAWND_FORGET:
		r = forget(s, a->id, &e);
		if (r == 0)
			conn_reply(s, who, 0, &e);
		break;
	case SPAWND_EGRESS:
		r = egress(s, who, a, text, &e);
		break; /* answered when the gate has them */
	}
	if (r < 0)
		conn_reply(s, who, r, &e);
}

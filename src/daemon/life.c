/*
 * Operations on sandboxes that are in use: their end, their life span, pause and resume, rules. Each is a call to the keeper
 * or an ask to brig-spawn and what follows from the answer.
 */
#include "daemon/denials.h"
#include "daemon/life_priv.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct life_op *life_op_new(struct daemon *d, const char *id, life_done_fn *done, void *owner)
{
	struct life_op *op = calloc(1, sizeof(*op));

	if (op == NULL) {
		done(owner, NULL, 500, "out of memory");
		return NULL;
	}
	*op = (struct life_op){.next = d->ops, .d = d, .done = done, .owner = owner};
	(void)snprintf(op->id, sizeof(op->id), "%s", id);
	d->ops = op;
	return op;
}

void life_op_end(struct life_op *op, unsigned status, const char *why)
{
	struct life_op **p = &op->d->ops;
	struct box *b = box_find(&op->d->boxes, op->id);

	while (*p != op)
		p = &(*p)->next;
	*p = op->next;
	if (op->done != NULL)
		op->done(op->owner, status == 0 ? b : NULL, status, why);
	json_decref(op->claim);
	free(op);
}

void life_drop_all(struct daemon *d)
{
	while (d->ops != NULL) {
		struct life_op *op = d->ops;

		d->ops = op->next;
		json_decref(op->claim);
		free(op);
	}
}

void life_forget(struct daemon *d, const void *owner)
{
	for (struct life_op *op = d->ops; op != NULL; op = op->next)
		if (op->owner == owner)
			op->done = NULL;
}

void life_log(struct daemon *d, const struct box *b, const char *level, const char *fmt, ...)
{
	char line[256];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (store_log(d->store, b->id, daemon_now_ms(), level, line, NULL) < 0)
		d->stats.store_errors++;
}

int life_save(struct daemon *d, struct box *b)
{
	struct err e = ERR_INIT;
	int r = store_box_put(d->store, b, &e);

	if (r < 0) {
		d->stats.store_errors++;
		daemon_say("%s", e.msg);
	}
	return r;
}

void life_ended(struct daemon *d, struct box *b, const char *how, const char *result)
{
	struct err e = ERR_INIT;

	if (b->state != BOX_POOLED) {
		if (store_box_end(d->store, b->id, how, result, daemon_now_ms(), &e) < 0) {
			d->stats.store_errors++;
			daemon_say("%s", e.msg);
		}
		*(strcmp(how, "killed") == 0    ? &d->stats.ended_killed
		  : strcmp(how, "timeout") == 0 ? &d->stats.ended_timeout
		  : strcmp(how, "exit") == 0    ? &d->stats.ended_exit
						: &d->stats.ended_lost) += 1;
	}
	box_drop(&d->boxes, b);
}

void life_end_unknown(struct daemon *d, const char *id)
{
	struct spawnd_ask a = {.op = SPAWND_KILL};

	(void)snprintf(a.id, sizeof(a.id), "%.32s", id);
	if (spawner_ask(&d->spawner, &a, NULL, 0, NULL, NULL) < 0)
		return; /* the next LIST finds it again */
}

const char *life_words(const json_t *answer, const char *otherwise)
{
	const char *s = json_string_value(json_object_get(answer, "message"));

	return s != NULL ? s : otherwise;
}

uint64_t life_deadline(const struct box *b, uint64_t timeout_ms)
{
	return b->pause_at_end && timeout_ms > 0 ? timeout_ms + LIFE_PAUSE_GRACE_MS : timeout_ms;
}

void life_call(struct life_op *op, const char *target, const json_t *body, ask_done_fn *done)
{
	struct daemon *d = op->d;
	struct box *b = box_find(&d->boxes, op->id);
	char path[128];
	int r = b == NULL ? -ENOENT : daemon_socket(d, b, path, sizeof(path));

	if (r == 0)
		r = ask_json_open(&d->asks, &d->loop, path, "POST", target, body, LIFE_CALL_MS, done, op);
	if (r < 0)
		done(op, 0, NULL);
}

/* ---- kill ---- */

static void killed(void *owner, const struct spawnd_tell *t, const char *text)
{
	struct life_op *op = owner;
	struct daemon *d = op->d;
	struct box *b = box_find(&d->boxes, op->id);

	(void)text;
	if (t == NULL || (t->ret < 0 && t->fault != ERR_NOT_FOUND)) {
		if (b != NULL)
			b->killing = false;
		life_op_end(op, 503, t == NULL ? "brig-spawn went away" : t->why);
		return;
	}
	if (b != NULL) {
		denials_leave(d, b);
		life_ended(d, b, "killed", NULL);
	}
	life_op_end(op, 0, NULL);
}

void life_kill(struct daemon *d, struct box *b, life_done_fn *done, void *owner)
{
	struct spawnd_ask a = {.op = SPAWND_KILL};
	struct life_op *op = life_op_new(d, b->id, done, owner);

	if (op == NULL)
		return;
	memcpy(a.id, b->id, sizeof(b->id));
	b->killing = true;
	if (spawner_ask(&d->spawner, &a, NULL, 0, killed, op) < 0) {
		b->killing = false;
		life_op_end(op, 503, "brig-spawn is not there");
	}
}

/* ---- life span ---- */

static void timeout_moved(void *owner, unsigned status, const json_t *answer)
{
	struct life_op *op = owner;
	struct box *b = box_find(&op->d->boxes, op->id);

	if (b == NULL) {
		life_op_end(op, 404, "the sandbox has ended");
		return;
	}
	if (status != 204) {
		life_op_end(op, status == 0 ? 502 : status, life_words(answer, "the sandbox does not answer"));
		return;
	}
	b->ends_ms = op->timeout_ms > 0 ? daemon_now_ms() + (int64_t)op->timeout_ms : 0;
	(void)life_save(op->d, b);
	life_op_end(op, 0, NULL);
}

static void call_timeout(struct life_op *op, uint64_t deadline_ms)
{
	json_t *body = json_pack("{s:I}", "timeout_ms", (json_int_t)deadline_ms);

	life_call(op, "/control/timeout", body, timeout_moved);
	json_decref(body);
}

void life_timeout(struct daemon *d, struct box *b, uint64_t timeout_ms, life_done_fn *done, void *owner)
{
	struct life_op *op = life_op_new(d, b->id, done, owner);

	if (op == NULL)
		return;
	op->timeout_ms = timeout_ms;
	call_timeout(op, life_deadline(b, timeout_ms));
}

/* ---- pause and resume ---- */

static void paused(void *owner, unsigned status, const json_t *answer)
{
	struct life_op *op = owner;
	struct daemon *d = op->d;
	struct box *b = box_find(&d->boxes, op->id);

	if (b != NULL)
		b->pausing = false;
	if (status == 501)
		d->cannot_pause = true;
	if (b == NULL || status != 204) {
		life_op_end(op, b == NULL ? 404 : status == 0 ? 502 : status,
			    life_words(answer, "the sandbox does not answer"));
		return;
	}
	box_state_set(&d->boxes, b, BOX_PAUSED);
	life_log(d, b, "info", "paused");
	op->timeout_ms = 0; /* a paused sandbox has no end of its own */
	call_timeout(op, 0);
}

void life_pause(struct daemon *d, struct box *b, life_done_fn *done, void *owner)
{
	struct life_op *op;

	if (b->state == BOX_PAUSED || b->pausing) {
		done(owner, NULL, 409, "the sandbox is paused already");
		return;
	}
	op = life_op_new(d, b->id, done, owner);
	if (op == NULL)
		return;
	b->pausing = true;
	life_call(op, "/control/pause", NULL, paused);
}

static void resumed(void *owner, unsigned status, const json_t *answer)
{
	struct life_op *op = owner;
	struct daemon *d = op->d;
	struct box *b = box_find(&d->boxes, op->id);

	if (b != NULL)
		b->pausing = false;
	if (b == NULL || (status != 204 && status != 409)) {
		life_op_end(op, b == NULL ? 404 : status == 0 ? 502 : status,
			    life_words(answer, "the sandbox does not answer"));
		return;
	}
	box_state_set(&d->boxes, b, BOX_RUNNING);
	life_log(d, b, "info", "resumed");
	call_timeout(op, life_deadline(b, op->timeout_ms));
}

void life_resume(struct daemon *d, struct box *b, uint64_t timeout_ms, life_done_fn *done, void *owner)
{
	struct life_op *op;

	if (b->state != BOX_PAUSED || b->pausing) {
		done(owner, NULL, 409, b->pausing ? "the sandbox is being paused or resumed" : "the sandbox is running");
		return;
	}
	op = life_op_new(d, b->id, done, owner);
	if (op == NULL)
		return;
	op->timeout_ms = timeout_ms;
	b->pausing = true;
	life_call(op, "/control/resume", NULL, resumed);
}

/* ---- rules ---- */

static void ruled(void *owner, const struct spawnd_tell *t, const char *text)
{
	struct life_op *op = owner;

	(void)text;
	if (t == NULL)
		life_op_end(op, 503, "brig-spawn went away");
	else if (t->ret < 0)
		life_op_end(op, t->fault == ERR_UNSUPPORTED || t->fault == ERR_DENIED
				    ? 400
				    : (unsigned)err_kind_http((enum err_kind)t->fault),
			    t->why);
	else
		life_op_end(op, 0, NULL);
}

void life_egress(struct daemon *d, struct box *b, enum spawnd_egress egress, const char *text, life_done_fn *done,
		 void *owner)
{
	struct spawnd_ask a = {.op = SPAWND_EGRESS, .egress = (uint32_t)egress};
	struct life_op *op = life_op_new(d, b->id, done, owner);

	if (op == NULL)
		return;
	memcpy(a.id, b->id, sizeof(b->id));
	if (spawner_ask(&d->spawner, &a, text, text != NULL ? strlen(text) : 0, ruled, op) < 0)
		life_op_end(op, 503, "brig-spawn is not there");
}

/*
 * Creating a sandbox: one from the pool or a new one, then the claim, which gives it its
 * environment and its life span. The row "starting" of a new one is there from the first step to the last;
 * one of the pool has none before its claim. A brigd that dies between has given its id to nobody, and
 * the next one ends it.
 */
#include "daemon/life_priv.h"
#include "daemon/quota.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(struct life_op *op, unsigned status, const char *why)
{
	struct daemon *d = op->d;
	struct box *b = box_find(&d->boxes, op->id);

	d->stats.create_failed++;
	if (b != NULL) {
		life_end_unknown(d, b->id);
		if (store_box_forget(d->store, b->id, NULL) < 0)
			d->stats.store_errors++;
		box_drop(&d->boxes, b);
	}
	life_op_end(op, status, why);
}

static void claimed(void *owner, unsigned status, const json_t *answer)
{
	struct life_op *op = owner;
	struct daemon *d = op->d;
	struct box *b = box_find(&d->boxes, op->id);
	int r;

	if (b == NULL || status != 204) {
		fail(op, status == 400 ? 400 : 503,
		     life_words(answer, "the sandbox went away while it started"));
		return;
	}
	b->started_ms = daemon_now_ms();
	b->ends_ms = b->started_ms + (int64_t)op->timeout_ms;
	box_state_set(&d->boxes, b, BOX_RUNNING);
	r = store_begin(d->store, NULL);
	if (r == 0) {
		r = life_save(d, b);
		life_log(d, b, "info", "created from template %s%s", b->template,
			 op->warm ? " (warm)" : "");
		r = store_commit(d->store, r, NULL);
	}
	if (r < 0) {
		fail(op, 500, "the store cannot be written");
		return;
	}
	d->stats.created++;
	d->stats.created_warm += op->warm;
	stats_start(&d->stats, op->warm, loop_clock_us() - op->begun_us);
	life_op_end(op, 0, NULL);
}

static void claim(struct life_op *op) { life_call(op, "/control/claim", op->claim, claimed); }

static void started(void *owner, const struct spawnd_tell *t, const char *text)
{
	struct life_op *op = owner;

	(void)text;
	if (t == NULL)
		fail(op, 503, "brig-spawn went away");
	else if (t->ret < 0)
		fail(op,
		     t->fault == ERR_INVALID || t->fault == ERR_DENIED ||
			     t->fault == ERR_UNSUPPORTED
			 ? 400
			 : 503,
		     t->why);
	else
		claim(op);
}

static void start(struct life_op *op, const struct life_wish *w, const struct box *b)
{
	struct daemon *d = op->d;
	struct spawnd_ask a = {.op = SPAWND_START,
			       .egress = (uint32_t)w->egress,
			       .timeout_ms = life_deadline(b, w->timeout_ms)};
	uint64_t most = d->config->max_timeout_ms;

	if (a.timeout_ms > most)
		a.timeout_ms = most;
	memcpy(a.id, b->id, sizeof(b->id));
	(void)snprintf(a.template, sizeof(a.template), "%s", w->template->name);
	(void)snprintf(a.tenant, sizeof(a.tenant), "%s", w->tenant);
	if (spawner_ask(&d->spawner, &a, w->egress_text,
			w->egress_text != NULL ? strlen(w->egress_text) : 0, started, op) < 0)
		fail(op, 503, "brig-spawn is not there");
}

static json_t *claim_of(const struct life_wish *w, const struct box *b)
{
	json_t *env = w->env != NULL ? json_deep_copy(w->env) : json_object();

	return json_pack("{s:o,s:I,s:s,s:O}", "envVars", env, "timeout_ms",
			 (json_int_t)life_deadline(b, w->timeout_ms), "templateID",
			 w->template->name, "metadata", b->metadata);
}

static bool fill_in(struct box *b, const struct life_wish *w)
{
	(void)snprintf(b->tenant, sizeof(b->tenant), "%s", w->tenant);
	(void)snprintf(b->template, sizeof(b->template), "%s", w->template->name);
	b->private_traffic = w->private_traffic;
	b->pause_at_end = w->pause_at_end;
	b->auto_resume = w->auto_resume;
	b->no_internet = w->no_internet;
	b->started_ms = daemon_now_ms();
	if (w->metadata == NULL)
		return true;
	json_decref(b->metadata);
	b->metadata = json_deep_copy(w->metadata);
	return b->metadata != NULL;
}

void life_create(struct daemon *d, const struct life_wish *w, life_done_fn *done, void *owner)
{
	struct life_op *op;
	struct box *b;
	char id[BOX_ID_SIZE];
	struct err e = ERR_INIT;
	bool warm;

	if (d->stopping) {
		done(owner, NULL, 503, "brigd is stopping");
		return;
	}
	if (d->boxes.n - d->boxes.count[BOX_POOLED] >= d->config->max_sandboxes) {
		d->stats.limited++;
		done(owner, NULL, 503, "as many sandboxes as permitted are alive");
		return;
	}
	if (quota_check(d, w->tenant, w->template, &e) < 0) {
		d->stats.limited++;
		done(owner, NULL, 429, e.msg);
		return;
	}
	b = w->egress == SPAWND_EGRESS_TEMPLATE ? pool_take(d, w->template) : NULL;
	warm = b != NULL;
	if (!warm && d->boxes.n >= d->config->max_sandboxes)
		(void)pool_give_up(d);
	if (!warm) {
		box_new_id(id);
		b = box_add(&d->boxes, id, BOX_STARTING);
		if (b == NULL) {
			done(owner, NULL, 500, "out of memory");
			return;
		}
	}
	box_state_set(&d->boxes, b, BOX_STARTING);
	op = life_op_new(d, b->id, done, owner);
	if (op == NULL) {
		life_end_unknown(d, b->id);
		box_drop(&d->boxes, b);
		return;
	}
	op->warm = b->warm = warm;
	op->begun_us = loop_clock_us();
	op->timeout_ms = w->timeout_ms;
	if (!fill_in(b, w) || (op->claim = claim_of(w, b)) == NULL) {
		fail(op, 500, "out of memory");
		return;
	}
	if (warm) {
		claim(op);
		return;
	}
	if (life_save(d, b) < 0)
		fail(op, 500, "the store cannot be written");
	else
		start(op, w, b);
}

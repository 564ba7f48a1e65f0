#include "keep/exec.h"

#include "base/cleanup.h"
#include "keep/priv.h"
#include "keep/query.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Leaves. Number 1 was given to the agent with the sandbox, and the first exec gets it. Once there was one, those of
 * the next execs are made ahead, and those of execs that ended are removed. The runner does that CHORES_MS after one's end,
 * when the client has what it waits for, and is not waited for; while one execs after the other, when the last but one spare
 * leaf is gone. Where something still runs in the background the leaf stays, and
 * is tried again when later ones end, TRIES at a time.
 */

enum { TRIES = 4, BUSY_MAX = 65536, CHORES_MS = 2, REST_MS = 50 };

static int set(json_t *o, const char *pair)
{
	const char *eq = strchr(pair, '=');
	_cleanup_free_ char *name = eq != NULL ? strndup(pair, (size_t)(eq - pair)) : NULL;

	return name == NULL ? 0 : json_object_set_new_nocheck(o, name, json_string_nocheck(eq + 1));
}

json_t *exec_env(const struct keep *k, const json_t *more)
{
	const struct spec *s = k->a->spec;
	json_t *o = json_pack("{s:s, s:s, s:s}", "E2B_SANDBOX", "true", "E2B_SANDBOX_ID", s->id,
			      "E2B_TEMPLATE_ID", k->a->template != NULL ? k->a->template : "");
	int r = o == NULL ? -1 : 0;

	for (uint32_t i = 0; r == 0 && i < s->env.n; i++)
		r = set(o, s->env.v[i]);
	if (r == 0)
		r = json_object_update(o, k->env);
	if (r == 0 && more != NULL)
		r = json_object_update(
		    o, (json_t *)(uintptr_t)more); // NOLINT(performance-no-int-to-ptr)
	if (r < 0) {
		json_decref(o);
		return NULL;
	}
	return o;
}

static void put_env(struct msg_writer *w, json_t *env)
{
	const char *name;
	json_t *v;

	json_object_foreach(env, name, v)
	{
		size_t n = strlen(name) + 1 + json_string_length(v);
		_cleanup_free_ char *pair = malloc(n + 1);

		if (pair == NULL) {
			w->err = -ENOMEM;
			return;
		}
		(void)snprintf(pair, n + 1, "%s=%s", name, json_string_value(v));
		msg_str(w, F_ENV, pair);
	}
}

static void put_want(struct msg_writer *w, const struct exec_want *x)
{
	msg_str(w, F_ARG, x->cmd);
	for (size_t i = 0; i < json_array_size(x->args); i++)
		msg_str(w, F_ARG, json_string_value(json_array_get(x->args, i)));
	put_env(w, x->env);
	if (x->cwd != NULL)
		msg_str(w, F_CWD, x->cwd);
	if (x->tty) {
		msg_u64(w, F_ROWS, x->rows);
		msg_u64(w, F_COLS, x->cols);
	}
}

static bool have_leaves(const struct keep *k)
{
	return (runner_weaker(k->a->runner) & WEAKER_KILL) == 0;
}

static void chores(struct timer *tm);

static void chores_due(struct keep *k, uint64_t ms)
{
	struct timer *t = &k->leaves.chores;

	t->fire = chores;
	timer_set(&k->timers, t, k->loop.now_ms + ms);
}

/* An exec begins or ends. */
static void chores_plan(struct keep *k, bool begins)
{
	const struct leaves *l = &k->leaves;

	if (l->spare_n > 1) /* a short one should not have to share the processor with them */
		chores_due(k, begins ? REST_MS : CHORES_MS);
	else if (l->chores.at_ms == 0 || l->chores.at_ms > k->loop.now_ms + CHORES_MS)
		chores_due(k, CHORES_MS);
}

/* A leaf for the next exec: *fd -1 = the agent has it, or guards the exec without one. */
static int next_leaf(struct keep *k, uint32_t *ret, int *fd, struct err *e)
{
	struct leaves *l = &k->leaves;
	int r = 0;

	chores_plan(k, true);
	if (l->spare_n > 0) {
		*ret = l->spare[0].nr;
		*fd = l->spare[0].fd;
		memmove(l->spare, l->spare + 1, --l->spare_n * sizeof(l->spare[0]));
		return 0;
	}
	*ret = l->last + 1;
	if (*ret > 1 && have_leaves(k)) {
		r = runner_leaf(k->a->runner, *ret, fd, e);
		if (r == -EOPNOTSUPP)
			r = 0;
	}
	if (r == 0)
		l->last++;
	return r;
}

int exec_open(struct keep *k, const struct exec_want *w, const struct stream_ops *ops, void *arg,
	      struct exec *ret, struct err *e)
{
	_cleanup_close_ int leaf = -1;
	uint64_t flags = (w->tty ? REQ_TTY : 0) | (w->in || w->tty ? REQ_STDIN : 0);
	struct msg_writer m;
	struct buf req;
	int r;

	*ret = (struct exec){.k = k};
	r = next_leaf(k, &ret->leaf, &leaf, e);
	if (r < 0)
		return r;
	m = query_begin(&req, REQ_EXEC, flags | (leaf >= 0 ? REQ_FD_LEAF : 0), w->user);
	put_want(&m, w);
	if (m.err < 0)
		r = err_set(
		    e, ERR_LIMITED, E2BIG,
		    "Argument list too long: one argument or variable may have 131071 bytes, "
		    "all together 4 MiB");
	else
		r = session_open(k->session, &req, &leaf, leaf >= 0 ? 1 : 0, ops, arg, &ret->s, e);
	buf_done(&req);
	if (r < 0)
		exec_ended(ret);
	return r;
}

void exec_kill(struct exec *x)
{
	if (runner_leaf_kill(x->k->a->runner, x->leaf, NULL) < 0 && x->s != NULL)
		stream_reset(x->s);
}

static void remember(uint32_t **v, uint32_t *n, uint32_t *cap, uint32_t leaf)
{
	if (*n == *cap) {
		uint32_t more = *cap == 0 ? 16 : 2 * *cap;
		uint32_t *w = more > BUSY_MAX ? NULL : reallocarray(*v, more, sizeof(*w));

		if (w == NULL)
			return; /* it goes with the sandbox */
		*v = w;
		*cap = more;
	}
	(*v)[(*n)++] = leaf;
}

static void on_dropped(void *arg, uint32_t leaf, int r, int fd)
{
	struct leaves *l = &((struct keep *)arg)->leaves;

	(void)fd;
	if (r == -EBUSY)
		remember(&l->busy, &l->busy_n, &l->busy_cap, leaf);
}

static void on_made(void *arg, uint32_t leaf, int r, int fd)
{
	struct leaves *l = &((struct keep *)arg)->leaves;

	l->asked--;
	if (r == 0 && fd >= 0) {
		l->spare[l->spare_n].nr = leaf;
		l->spare[l->spare_n++].fd = fd;
	}
}

void exec_ended(struct exec *x)
{
	struct leaves *l = &x->k->leaves;

	x->s = NULL;
	if (keep_lost(x->k) || !have_leaves(x->k))
		return;
	remember(&l->over, &l->over_n, &l->over_cap, x->leaf);
	chores_plan(x->k, false);
}

static void chores(struct timer *tm)
{
	struct keep *k = (struct keep *)((char *)tm - offsetof(struct keep, leaves.chores));
	struct leaves *l = &k->leaves;
	uint32_t tries = l->busy_n < TRIES ? l->busy_n : TRIES;

	if (keep_lost(k) || !have_leaves(k))
		return;
	for (uint32_t i = 0; l->over_n > 0 && i < tries && runner_leaf_drop(k->a->runner, l->busy[0], on_dropped, k) == 0; i++)
		memmove(l->busy, l->busy + 1, --l->busy_n * sizeof(*l->busy)); /* the oldest; those that stay go to the end */
	while (l->over_n > 0 && runner_leaf_drop(k->a->runner, l->over[l->over_n - 1], on_dropped, k) == 0)
		l->over_n--;
	while (l->spare_n + l->asked < SPARE_LEAVES && runner_leaf_later(k->a->runner, l->last + 1, on_made, k) == 0) {
		l->last++;
		l->asked++;
	}
	if (l->over_n > 0)
		chores_due(k, CHORES_MS);
}

void exec_done(struct keep *k)
{
	timer_clear(&k->timers, &k->leaves.chores);
	while (k->leaves.spare_n > 0)
		(void)close(k->leaves.spare[--k->leaves.spare_n].fd);
	free(k->leaves.over);
	free(k->leaves.busy);
}

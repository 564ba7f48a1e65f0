#include "keep/exec.h"

#include "base/cleanup.h"
#include "keep/priv.h"
#include "keep/query.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Leaves. Number 1 was given to the agent with the sandbox, and the first exec gets it. The leaf of
 * an exec that ended is removed at once, unless a background process still runs in it: then it is
 * tried again when later ones end, TRIES at a time.
 */

enum { TRIES = 4, BUSY_MAX = 65536 };

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

/* A leaf for the next exec: *fd -1 = the agent has it, or guards the exec without one. */
static int next_leaf(struct keep *k, uint32_t *ret, int *fd, struct err *e)
{
	int r = 0;

	*ret = k->leaves.last + 1;
	if (*ret > 1 && (runner_weaker(k->a->runner) & WEAKER_KILL) == 0) {
		r = runner_leaf(k->a->runner, *ret, fd, e);
		if (r == -EOPNOTSUPP)
			r = 0;
	}
	if (r == 0)
		k->leaves.last++;
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

static void remember(struct leaves *l, uint32_t leaf)
{
	if (l->busy_n == l->busy_cap) {
		uint32_t cap = l->busy_cap == 0 ? 16 : 2 * l->busy_cap;
		uint32_t *v = cap > BUSY_MAX ? NULL : reallocarray(l->busy, cap, sizeof(*v));

		if (v == NULL)
			return; /* it goes with the sandbox */
		l->busy = v;
		l->busy_cap = cap;
	}
	l->busy[l->busy_n++] = leaf;
}

static bool drop(struct keep *k, uint32_t leaf)
{
	return runner_leaf_drop(k->a->runner, leaf, NULL) != -EBUSY;
}

void exec_ended(struct exec *x)
{
	struct leaves *l = &x->k->leaves;
	uint32_t tries = l->busy_n < TRIES ? l->busy_n : TRIES;

	x->s = NULL;
	if (keep_lost(x->k) || (runner_weaker(x->k->a->runner) & WEAKER_KILL) != 0)
		return;
	for (uint32_t i = 0; i < tries; i++) { /* the oldest; those that stay go to the end */
		uint32_t leaf = l->busy[0];

		memmove(l->busy, l->busy + 1, --l->busy_n * sizeof(*l->busy));
		if (!drop(x->k, leaf))
			remember(l, leaf);
	}
	if (!drop(x->k, x->leaf))
		remember(l, x->leaf);
}

void exec_done(struct keep *k) { free(k->leaves.busy); }

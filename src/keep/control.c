#include "keep/code.h"
#include "keep/priv.h"
#include "keep/rpc.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/*
 * brigd's own calls. A client's call cannot get here: brigd writes the first part of every target.
 */

void health(struct talk *t, json_t *req)
{
	(void)req;
	talk_status(t, 204);
}

/* Answered by keep_main when the sandbox has ended. */
void control_wait(struct talk *t, json_t *req)
{
	(void)req;
	t->waits = true;
}

/*
 * For one that will wait in a pool: answered when that is done which its first calls would wait for.
 * Its users are known (the route asks for one), and the first context's kernel is up, or will not be.
 */
void control_ready(struct talk *t, json_t *req)
{
	(void)req;
	if (code_comes(t->k))
		t->waits_code = true;
	else
		talk_status(t, 204);
}

static uint64_t wall_ms(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Its life ends so many milliseconds from now; 0 = never. 0, or a status and why in *e. */
static int set_deadline(struct keep *k, const json_t *v, struct err *e)
{
	json_int_t ms = json_integer_value(v);
	int r;

	if (!json_is_integer(v) || ms < 0 || (uint64_t)ms > SPEC_TIMEOUT_MAX_MS)
		return err_set(e, ERR_INVALID, EINVAL,
			       "timeout_ms: a number of milliseconds is wanted");
	r = runner_deadline(k->a->runner, (uint64_t)ms, e);
	if (r == 0)
		k->deadline_ms = ms == 0 ? 0 : wall_ms() + (uint64_t)ms;
	return r;
}

void control_claim(struct talk *t, json_t *req)
{
	json_t *env = rpc_get(req, "envVars", NULL), *ms = rpc_get(req, "timeout_ms", NULL);
	struct err e = ERR_INIT;

	if (t->k->claimed)
		fail_status(t, 409, "the sandbox is in use already");
	else if (env != NULL && (!json_is_object(env) || !rpc_strings(env)))
		fail_status(t, 400, "envVars: names and strings are wanted");
	else if (ms != NULL && set_deadline(t->k, ms, &e) < 0)
		fail_status(t, e.kind == ERR_INVALID || e.kind == ERR_LIMITED ? 400 : 500, "%s",
			    e.msg);
	else if (env != NULL && json_object_update(t->k->env, env) < 0)
		talk_cut(t);
	else {
		t->k->claimed = true;
		users_known(t->k);
		talk_status(t, 204);
	}
}

void control_timeout(struct talk *t, json_t *req)
{
	struct err e = ERR_INIT;

	if (set_deadline(t->k, json_object_get(req, "timeout_ms"), &e) < 0)
		fail_status(t, e.kind == ERR_INVALID || e.kind == ERR_LIMITED ? 400 : 500, "%s",
			    e.msg);
	else
		talk_status(t, 204);
}

static void freeze(struct talk *t, bool on)
{
	struct err e = ERR_INIT;
	int r;

	if (t->k->paused == on) {
		fail_status(t, 409,
			    on ? "the sandbox is paused already" : "the sandbox is running");
		return;
	}
	r = runner_freeze(t->k->a->runner, on, &e);
	if (r < 0) {
		fail_status(t, r == -EOPNOTSUPP ? 501 : 500, "%s", e.msg);
		return;
	}
	t->k->paused = on;
	talk_status(t, 204);
}

void control_pause(struct talk *t, json_t *req)
{
	(void)req;
	freeze(t, true);
}

void control_resume(struct talk *t, json_t *req)
{
	(void)req;
	freeze(t, false);
}

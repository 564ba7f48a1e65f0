#include "keep/priv.h"

#include <errno.h>
#include <string.h>

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

void control_stat(struct talk *t, json_t *req)
{
	(void)req;
	talk_json(t, 200, json_pack("{s:s}", "state", t->k->paused ? "paused" : "running"));
}

static bool strings_only(const json_t *o)
{
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)o, name, v) // NOLINT
	    if (!json_is_string(v) || name[0] == '\0' || strchr(name, '=') != NULL) return false;
	return json_is_object(o);
}

/* Move the end of its life as the request says; nothing is said when there is no such key. False: answered. */
static bool set_deadline(struct talk *t, const json_t *req)
{
	const json_t *ms = json_object_get(req, "timeout_ms");
	struct err e = ERR_INIT;

	if (ms == NULL || json_is_null(ms))
		return true;
	if (!json_is_integer(ms) || json_integer_value(ms) < 0 ||
	    (uint64_t)json_integer_value(ms) > SPEC_TIMEOUT_MAX_MS) {
		fail_status(t, 400, "timeout_ms: milliseconds from now are wanted");
		return false;
	}
	if (runner_deadline(t->k->a->runner, (uint64_t)json_integer_value(ms), &e) < 0) {
		fail_status(t, 502, "%s", e.msg);
		return false;
	}
	return true;
}

void control_claim(struct talk *t, json_t *req)
{
	const json_t *env = json_object_get(req, "envVars");

	if (t->k->claimed) {
		fail_status(t, 409, "the sandbox is in use already");
		return;
	}
	if (env != NULL && !json_is_null(env)) {
		if (!strings_only(env)) {
			fail_status(t, 400, "envVars: names and strings are wanted");
			return;
		}
		if (json_object_update(t->k->env, (json_t *)(uintptr_t)env) < 0) { // NOLINT
			fail_status(t, 500, "out of memory");
			return;
		}
	}
	if (!set_deadline(t, req))
		return;
	t->k->claimed = true;
	talk_status(t, 204);
}

void control_timeout(struct talk *t, json_t *req)
{
	if (set_deadline(t, req))
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

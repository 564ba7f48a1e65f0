/* The requests about one sandbox that is there. */
#include "api/request.h"

#include <string.h>

enum { V1_CONNECT_MS = 15000, REFRESH_S = 60 };

static void done_204(void *owner, struct box *b, unsigned status, const char *why)
{
	struct request *q = owner;

	(void)b;
	if (status == 0)
		reply_status(q, 204);
	else
		reply_error(q, status, "%s", why);
}

/* A number of seconds: 0 and *ret_ms, 0 = not given; -1 = refused. */
static int seconds(struct request *q, const json_t *body, const char *key, uint64_t *ret_ms)
{
	const json_t *v = json_object_get(body, key);
	json_int_t s = json_integer_value(v);
	uint64_t most = q->d->config->max_timeout_ms / 1000;

	*ret_ms = 0;
	if (v == NULL || json_is_null(v))
		return 0;
	if (!json_is_integer(v) || s < 0 || (uint64_t)s > most) {
		reply_error(q, 400, "%s: a number of seconds up to %llu is wanted", key, (unsigned long long)most);
		return -1;
	}
	/* no life at all: it ends at once */
	*ret_ms = s == 0 ? 1 : (uint64_t)s * 1000;
	return 0;
}

/* Refuse what the body has beside these names. */
static bool only(struct request *q, json_t *body, const char *a, const char *b)
{
	for (void *it = json_object_iter(body); it != NULL; it = json_object_iter_next(body, it)) {
		const char *key = json_object_iter_key(it);

		if (strcmp(key, a) != 0 && strcmp(key, b) != 0) {
			reply_error(q, 400, "unknown field '%.64s'", key);
			return false;
		}
	}
	return true;
}

/* "memory": false means a pause or start without the processes. */
static bool with_memory(struct request *q, const json_t *body)
{
	const json_t *v = json_object_get(body, "memory");

	if (v == NULL || json_is_null(v) || json_is_true(v))
		return true;
	reply_error(q, 400, "memory: brig pauses and resumes with memory only");
	return false;
}

void h_get(struct request *q, json_t *body)
{
	const struct box *b = request_box(q);

	(void)body;
	if (b != NULL)
		reply_json(q, 200, box_detail(q->d, b, false));
}

void h_kill(struct request *q, json_t *body)
{
	struct box *b = request_box(q);

	(void)body;
	if (b != NULL)
		life_kill(q->d, b, done_204, q);
}

void h_timeout(struct request *q, json_t *body)
{
	struct box *b = request_box(q);
	uint64_t ms;

	if (b == NULL || !only(q, body, "timeout", "timeout") || seconds(q, body, "timeout", &ms) < 0)
		return;
	if (ms == 0)
		reply_error(q, 400, "timeout is missing");
	else
		life_timeout(q->d, b, ms, done_204, q);
}

void h_refresh(struct request *q, json_t *body)
{
	struct box *b = request_box(q);
	uint64_t ms;

	if (b == NULL || !only(q, body, "duration", "duration") || seconds(q, body, "duration", &ms) < 0)
		return;
	if (ms == 0)
		ms = (uint64_t)REFRESH_S * 1000;
	if (b->state == BOX_PAUSED || b->ends_ms == 0 || b->ends_ms >= daemon_now_ms() + (int64_t)ms)
		reply_status(q, 204); /* it only ever lengthens */
	else
		life_timeout(q->d, b, ms, done_204, q);
}

static void connected(void *owner, struct box *b, unsigned status, const char *why)
{
	struct request *q = owner;

	if (status == 0 && b != NULL)
		reply_json(q, 200, box_short(q->d, b));
	else
		reply_error(q, status == 0 ? 404 : status, "%s", why != NULL ? why : "the sandbox has ended");
}

static void resumed(void *owner, struct box *b, unsigned status, const char *why)
{
	struct request *q = owner;

	if (status == 0 && b != NULL)
		reply_json(q, 201, box_short(q->d, b));
	else
		connected(owner, b, status, why);
}

void h_connect(struct request *q, json_t *body)
{
	struct box *b = request_box(q);
	uint64_t ms;

	if (b == NULL || !only(q, body, "timeout", "memory") || !with_memory(q, body) ||
	    seconds(q, body, "timeout", &ms) < 0)
		return;
	if (ms == 0 && !q->v2) {
		reply_error(q, 400, "timeout is missing");
		return;
	}
	if (b->state == BOX_PAUSED)
		life_resume(q->d, b, ms != 0 ? ms : q->d->config->default_timeout_ms, resumed, q);
	else if (ms != 0 && b->ends_ms != 0 && b->ends_ms < daemon_now_ms() + (int64_t)ms)
		life_timeout(q->d, b, ms, connected, q);
	else
		connected(q, b, 0, NULL);
}

void h_pause(struct request *q, json_t *body)
{
	struct box *b = request_box(q);

	if (b != NULL && only(q, body, "memory", "memory") && with_memory(q, body))
		life_pause(q->d, b, done_204, q);
}

void h_resume(struct request *q, json_t *body)
{
	struct box *b = request_box(q);
	const json_t *again = json_object_get(body, "autoPause");
	uint64_t ms;

	if (b == NULL || !only(q, body, "timeout", "autoPause") || seconds(q, body, "timeout", &ms) < 0)
		return;
	if (again != NULL && !json_is_null(again) && !json_is_boolean(again)) {
		reply_error(q, 400, "autoPause: true or false is wanted");
		return;
	}
	if (json_is_boolean(again) && b->state == BOX_PAUSED)
		b->pause_at_end = json_is_true(again);
	life_resume(q->d, b, ms != 0 ? ms : (uint64_t)V1_CONNECT_MS, resumed, q);
}

void h_health(struct request *q, json_t *body)
{
	(void)body;
	reply_status(q, 204);
}

/* ---- what brig has nothing behind ---- */

void h_no_snapshots(struct request *q, json_t *body)
{
	(void)body;
	if (q->word[0] != '\0' && request_box(q) == NULL)
		return;
	reply_error(q, 400, "brig's container tier has no snapshots and no forks");
}

void h_no_templates(struct request *q, json_t *body)
{
	(void)body;
	reply_error(q, strcmp(q->method, "DELETE") == 0 ? 404 : 400,
		    "templates are made on the host: see brig image build and brigd.yaml(5)");
}

void h_no_volumes(struct request *q, json_t *body)
{
	(void)body;
	reply_error(q, 400, "brig has no volumes");
}

void h_no_secrets(struct request *q, json_t *body)
{
	(void)body;
	reply_error(q, 400, "brig keeps no secrets for sandboxes over this interface: see the rules of brig-egress(5)");
}

void h_template_alias(struct request *q, json_t *body)
{
	const struct config_template *t = config_template(q->d->config, q->word);

	(void)body;
	if (t == NULL)
		reply_error(q, 404, "template '%.64s' not found", q->word);
	else
		reply_json(q, 200, json_pack("{s:s,s:b}", "templateID", t->name, "public", 0));
}

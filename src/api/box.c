#include "api/request.h"

#include "parse/stamp.h"

#include <stdio.h>
#include <string.h>

/* A sandbox as the control API shows it, and who may see it: another tenant's is answered exactly as one that never was. */

#define ENVD_VERSION "0.6.13" /* steers the clients: what envd of this version offers is there */

struct box *request_box(struct request *q)
{
	struct box *b = box_find(&q->d->boxes, q->word);

	if (b == NULL || (b->state != BOX_RUNNING && b->state != BOX_PAUSED) || strcmp(b->tenant, q->who.tenant) != 0) {
		reply_error(q, 404, "sandbox %s not found", q->word);
		return NULL;
	}
	if (b->killing) {
		reply_error(q, strcmp(q->method, "DELETE") == 0 ? 404 : 409, "sandbox %s is being killed", q->word);
		return NULL;
	}
	return b;
}

static int put(json_t *o, const char *key, json_t *v) { return json_object_set_new(o, key, v); }

static int put_common(json_t *o, const struct daemon *d, const struct box *b)
{
	const struct config_template *t = config_template(d->config, b->template);
	int bad = put(o, "templateID", json_string(b->template)) | put(o, "sandboxID", json_string(b->id)) |
		  put(o, "clientID", json_string("brig")) | put(o, "envdVersion", json_string(ENVD_VERSION));

	if (t != NULL && t->alias.n > 0)
		bad |= put(o, "alias", json_string(t->alias.v[0]));
	else
		bad |= put(o, "alias", json_string(b->template));
	return bad;
}

static int put_secrets(json_t *o, const struct daemon *d, const struct box *b)
{
	char token[SEAL_TOKEN_SIZE];
	int bad;

	seal_token(&d->seal, "access", b->id, token);
	bad = put(o, "envdAccessToken", json_string(token)) |
	      put(o, "domain", d->config->domain != NULL ? json_string(d->config->domain) : json_null());
	if (b->private_traffic) {
		seal_token(&d->seal, "traffic", b->id, token);
		bad |= put(o, "trafficAccessToken", json_string(token));
	}
	return bad;
}

static json_t *or_none(json_t *o, int bad)
{
	if (o != NULL && bad != 0) {
		json_decref(o);
		return NULL;
	}
	return o;
}

json_t *box_short(const struct daemon *d, const struct box *b)
{
	json_t *o = json_object();

	return or_none(o, o == NULL || (put_common(o, d, b) | put_secrets(o, d, b)));
}

json_t *box_detail(const struct daemon *d, const struct box *b, bool listed)
{
	const struct config_template *t = config_template(d->config, b->template);
	struct figures f = t != NULL ? d->figures[daemon_template_index(d, t)] : (struct figures){.cpu_count = 1};
	char started[STAMP_SIZE], ends[STAMP_SIZE];
	json_t *o = json_object();
	int bad;

	if (o == NULL)
		return NULL;
	(void)stamp_ms(b->started_ms, started);
	/* one that never ends by itself (paused): the latest it could */
	(void)stamp_ms(b->ends_ms != 0 ? b->ends_ms : daemon_now_ms() + (int64_t)d->config->max_timeout_ms, ends);
	bad = put_common(o, d, b) | put(o, "startedAt", json_string(started)) | put(o, "endAt", json_string(ends)) |
	      put(o, "cpuCount", json_integer(f.cpu_count)) | put(o, "memoryMB", json_integer((json_int_t)f.memory_mb)) |
	      put(o, "diskSizeMB", json_integer((json_int_t)f.disk_mb)) |
	      put(o, "state", json_string(box_state_word(b->state))) | put(o, "tier", json_string("container")) | put(o, "metadata", json_deep_copy(b->metadata));
	if (!listed)
		bad |= put_secrets(o, d, b) | put(o, "allowInternetAccess", b->no_internet ? json_false() : json_true()) |
		       put(o, "lifecycle",
			   json_pack("{s:b,s:s}", "autoResume", b->auto_resume, "onTimeout",
				     b->pause_at_end ? "pause" : "kill"));
	return or_none(o, bad);
}

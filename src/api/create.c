/* POST /sandboxes: the fields of the body, one reader each. The client's JSON was read strictly; each reader checks its own
 * value, and what brig cannot do is refused by the field's name. */
#include "api/network.h"
#include "api/request.h"

#include "base/cleanup.h"
#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { V1_TIMEOUT_MS = 15000, STRINGS_MAX = 128, STRING_MAX = 32 * 1024 };

struct wish {
	struct request *q;
	struct life_wish life;
	const json_t *network;
	bool no_internet;
	struct err e;
};

static int refuse(struct wish *w, const char *why) { return err_set(&w->e, ERR_INVALID, EINVAL, "%s", why); }

static int read_template(struct wish *w, const json_t *v)
{
	const char *name = json_string_value(v);

	if (name == NULL)
		return refuse(w, "templateID: a string is wanted");
	w->life.template = config_template(w->q->d->config, name);
	if (w->life.template == NULL)
		return err_set(&w->e, ERR_NOT_FOUND, ENOENT, "template '%.64s' not found", name);
	return 0;
}

static int read_timeout(struct wish *w, const json_t *v)
{
	json_int_t s = json_integer_value(v);
	uint64_t most = w->q->d->config->max_timeout_ms / 1000;

	if (!json_is_integer(v) || s <= 0)
		return refuse(w, "timeout: a number of seconds above 0 is wanted");
	if ((uint64_t)s > most)
		return err_set(&w->e, ERR_INVALID, ERANGE, "timeout: at most %llu seconds are permitted",
			       (unsigned long long)most);
	w->life.timeout_ms = (uint64_t)s * 1000;
	return 0;
}

static int check_strings(struct wish *w, const json_t *v, const char *key, bool names)
{
	if (!json_is_object(v) || json_object_size(v) > STRINGS_MAX)
		return err_set(&w->e, ERR_INVALID, EINVAL, "%s: an object of at most %d strings is wanted", key, STRINGS_MAX);
	for (void *it = json_object_iter((json_t *)(uintptr_t)v); it != NULL; // NOLINT(performance-no-int-to-ptr)
	     it = json_object_iter_next((json_t *)(uintptr_t)v, it)) { // NOLINT(performance-no-int-to-ptr)
		const char *name = json_object_iter_key(it);
		const json_t *s = json_object_iter_value(it);

		if (!json_is_string(s) || json_string_length(s) > STRING_MAX)
			return err_set(&w->e, ERR_INVALID, EINVAL, "%s: '%.64s' is no string of at most %d bytes", key, name,
				       STRING_MAX);
		if (names && (name[0] == '\0' || strchr(name, '=') != NULL))
			return err_set(&w->e, ERR_INVALID, EINVAL, "%s: '%.64s' is no name of a variable", key, name);
	}
	return 0;
}

static int read_metadata(struct wish *w, const json_t *v)
{
	w->life.metadata = v;
	return check_strings(w, v, "metadata", false);
}

static int read_env(struct wish *w, const json_t *v)
{
	w->life.env = v;
	return check_strings(w, v, "envVars", true);
}

static int read_bool(struct wish *w, const json_t *v, const char *key, bool *ret)
{
	if (!json_is_boolean(v))
		return err_set(&w->e, ERR_INVALID, EINVAL, "%s: true or false is wanted", key);
	*ret = json_is_true(v);
	return 0;
}

static int read_internet(struct wish *w, const json_t *v)
{
	bool on = true;
	int r = read_bool(w, v, "allow_internet_access", &on);

	w->no_internet = !on; /* true: what the template permits */
	return r;
}

static int read_auto_pause(struct wish *w, const json_t *v)
{
	int r = read_bool(w, v, "autoPause", &w->life.pause_at_end);

	if (r == 0 && w->life.pause_at_end && w->q->d->cannot_pause)
		return refuse(w, "autoPause: this host cannot pause sandboxes (it needs cgroup v2)");
	return r;
}

static int read_auto_pause_memory(struct wish *w, const json_t *v)
{
	bool memory = true;
	int r = read_bool(w, v, "autoPauseMemory", &memory);

	return r == 0 && !memory ? refuse(w, "autoPauseMemory: brig pauses with memory only") : r;
}

static int read_auto_resume(struct wish *w, const json_t *v)
{
	const json_t *on = json_object_get(v, "enabled");

	if (!json_is_object(v) || json_object_size(v) != 1 || !json_is_boolean(on))
		return refuse(w, "autoResume: {\"enabled\": true or false} is wanted");
	w->life.auto_resume = json_is_true(on);
	return 0;
}

static int read_network(struct wish *w, const json_t *v)
{
	w->network = v;
	return 0;
}

static int read_volumes(struct wish *w, const json_t *v)
{
	return json_is_array(v) && json_array_size(v) == 0 ? 0 : refuse(w, "volumeMounts: brig has no volumes");
}

static int read_mcp(struct wish *w, const json_t *v)
{
	return json_is_object(v) && json_object_size(v) == 0 ? 0 : refuse(w, "mcp: brig has no MCP gateway");
}

static int read_iam(struct wish *w, const json_t *v)
{
	return json_is_object(v) && json_object_size(v) == 0 ? 0 : refuse(w, "iam: brig issues no identity tokens");
}

static int read_secure(struct wish *w, const json_t *v)
{
	bool on;

	return read_bool(w, v, "secure", &on); /* every sandbox has its token */
}

static const struct {
	const char *name;
	int (*read)(struct wish *w, const json_t *v);
} fields[] = {
#define FIELD(name, read) {name, read},
#include "api/create_fields.def"
#undef FIELD
};

static int read_field(struct wish *w, const char *name, const json_t *v)
{
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (strcmp(fields[i].name, name) == 0)
			return json_is_null(v) ? 0 : fields[i].read(w, v);
	return err_set(&w->e, ERR_INVALID, EINVAL, "unknown field '%.64s'", name);
}

static void created(void *owner, struct box *b, unsigned status, const char *why)
{
	struct request *q = owner;

	if (status == 0 && b != NULL)
		reply_json(q, 201, box_short(q->d, b));
	else
		reply_error(q, status == 0 ? 503 : status, "%s", why != NULL ? why : "the sandbox has ended already");
}

void h_create(struct request *q, json_t *body)
{
	struct wish w = {.q = q, .e = ERR_INIT};
	struct network n = {.text = NULL};
	int r = 0;

	for (void *it = json_object_iter(body); r == 0 && it != NULL; it = json_object_iter_next(body, it))
		r = read_field(&w, json_object_iter_key(it), json_object_iter_value(it));
	if (r == 0 && w.life.template == NULL)
		r = refuse(&w, "templateID is missing");
	if (r == 0)
		r = network_read(w.network, w.no_internet, false, &n, &w.e);
	if (r < 0) {
		reply_error(q, (unsigned)err_kind_http(w.e.kind), "%s", w.e.msg);
		return;
	}
	w.life.tenant = q->who.tenant;
	w.life.egress = n.egress;
	w.life.egress_text = n.text;
	w.life.private_traffic = n.private_traffic;
	w.life.no_internet = n.no_internet;
	if (w.life.timeout_ms == 0)
		w.life.timeout_ms = q->v2 ? q->d->config->default_timeout_ms
					  : MIN(q->d->config->default_timeout_ms, (uint64_t)V1_TIMEOUT_MS);
	life_create(q->d, &w.life, created, q);
	free(n.text);
}

static void updated(void *owner, struct box *b, unsigned status, const char *why)
{
	struct request *q = owner;

	if (status == 0 && b != NULL)
		reply_status(q, 204);
	else
		reply_error(q, status == 0 ? 404 : status, "%s", why != NULL ? why : "the sandbox has ended");
}

void h_network(struct request *q, json_t *body)
{
	struct box *b = request_box(q);
	struct network n = {.text = NULL};
	struct err e = ERR_INIT;

	if (b == NULL)
		return;
	if (network_read(body, false, true, &n, &e) < 0) {
		reply_error(q, 400, "%s", e.msg);
		return;
	}
	b->no_internet = n.no_internet;
	life_egress(q->d, b, n.egress, n.text, updated, q);
	free(n.text);
}

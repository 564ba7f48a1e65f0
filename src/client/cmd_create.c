/* `brig create`: POST /v2/sandboxes. What the options say becomes the request's fields; what the
 * daemon refuses, it refuses by name. */
#include "base/num.h"
#include "client/client.h"

#include <errno.h>
#include <string.h>

#define OPT_WANT_TIMEOUT "how long it lives: 10m, 2h (default: the daemon's)"
#define OPT_WANT_CREATE
#define OPT_WANT_JSON
#include "client/options.h"

struct wish {
	json_t *body, *env, *metadata, *allow, *deny; /* owned but by name of body */
	bool no_network, private, json;
};

static int add_text(json_t *list, const char *option, const char *value, struct err *e)
{
	if (json_array_append_new(list, json_string(value)) == 0)
		return 0;
	return err_set(e, ERR_INVALID, EINVAL, "%s: only text in UTF-8 can be sent", option);
}

static int take(void *arg, int id, const char *value, struct err *e)
{
	struct wish *w = arg;
	json_int_t seconds;
	int r = 0;

	switch (id) {
	case O_TIMEOUT:
		r = client_seconds(value, "--timeout", &seconds, e);
		return r < 0 ? r
		       : json_object_set_new(w->body, "timeout", json_integer(seconds)) < 0
			   ? err_no_memory(e)
			   : 0;
	case O_ENV:
		return client_pair(w->env, value, "--env", e);
	case O_METADATA:
		return client_pair(w->metadata, value, "--metadata", e);
	case O_ON_TIMEOUT:
		if (strcmp(value, "kill") != 0 && strcmp(value, "pause") != 0)
			return err_set(e, ERR_INVALID, EINVAL,
				       "--on-timeout: kill or pause is wanted");
		return json_object_set_new(w->body, "autoPause", json_boolean(value[0] == 'p')) < 0
			   ? err_no_memory(e)
			   : 0;
	case O_ALLOW:
		return add_text(w->allow, "--allow", value, e);
	case O_DENY:
		return add_text(w->deny, "--deny", value, e);
	case O_NO_NETWORK:
		w->no_network = true;
		return 0;
	case O_PRIVATE:
		w->private = true;
		return 0;
	default:
		w->json = w->json || id == O_JSON;
		return 0;
	}
}

/* The API takes an allow-list only beside a denial of everything else, which is what --allow means.
 */
static int put_network(struct wish *w, struct err *e)
{
	json_t *net = json_object();
	int bad = net == NULL;

	if (w->no_network && json_array_size(w->allow) + json_array_size(w->deny) > 0) {
		json_decref(net);
		return err_set(e, ERR_INVALID, EINVAL,
			       "--no-network leaves nothing for --allow and --deny");
	}
	if (json_array_size(w->allow) > 0)
		bad |= json_array_append_new(w->deny, json_string("0.0.0.0/0")) |
		       json_object_set(net, "allowOut", w->allow);
	if (json_array_size(w->deny) > 0)
		bad |= json_object_set(net, "denyOut", w->deny);
	if (w->private)
		bad |= json_object_set_new(net, "allowPublicTraffic", json_false());
	if (w->no_network)
		bad |= json_object_set_new(w->body, "allow_internet_access", json_false());
	if (json_object_size(net) > 0)
		bad |= json_object_set(w->body, "network", net);
	json_decref(net);
	return bad ? err_no_memory(e) : 0;
}

static int create(struct client *c, struct wish *w, const char *template, struct err *e)
{
	json_t *got = NULL;
	const char *id;
	int r = put_network(w, e);

	if (r == 0 && json_object_set_new(w->body, "templateID", json_string(template)) < 0)
		r = err_set(e, ERR_INVALID, EINVAL, "the name of a template is text in UTF-8");
	if (r == 0 && json_object_size(w->env) > 0)
		(void)json_object_set(w->body, "envVars", w->env);
	if (r == 0 && json_object_size(w->metadata) > 0)
		(void)json_object_set(w->body, "metadata", w->metadata);
	if (r == 0)
		r = client_open(c, e);
	if (r == 0)
		r = api_call(c, "POST", "/v2/sandboxes", w->body, JSON_OBJECT, &got, e);
	if (r < 0)
		return r;
	id = api_text(got, "sandboxID");
	if (id == NULL || !api_is_id(id))
		r = err_set(e, ERR_LOST, EPROTO, "the daemon's answer has no id of a sandbox");
	else
		r = w->json ? client_print(json_incref(got), e) : client_puts(id, e);
	json_decref(got);
	return r;
}

static int create_run(int argc, char **argv)
{
	struct wish w = {json_object(), json_object(), json_object(), json_array(),
			 json_array(),	false,	       false,	      false};
	struct client c = {.http = {.multi = NULL}};
	struct err e = ERR_INIT;
	int n, r;

	(void)argc;
	n = r = client_options(&c, opts, ARRAY_LEN(opts), argv, -1, take, &w, &e);
	if (r >= 0)
		r = client_count(n, 0, 1, "one template at most", &e);
	if (r >= 0)
		r = create(&c, &w, n == 1 ? argv[1] : "base", &e);
	json_decref(w.body);
	json_decref(w.env);
	json_decref(w.metadata);
	json_decref(w.allow);
	json_decref(w.deny);
	return client_end(&c, "create", r, &e);
}

const struct command_impl client_create = {
    .run = create_run,
    .opts = opts,
    .nopts = ARRAY_LEN(opts),
    .words = "",
    .notes = "TEMPLATE is one of the daemon's configuration (default: base).\n",
};

/* `brig kill`: DELETE /sandboxes/ID. */
#include "base/num.h"
#include "client/each.h"

#include <errno.h>
#include <stdio.h>

#define OPT_WANT_ALL "all that this key sees"
#include "client/options.h"

static int take(void *arg, int id, const char *value, struct err *e)
{
	bool *all = arg;

	(void)value;
	(void)e;
	*all = *all || id == O_ALL;
	return 0;
}

static int kill_one(struct client *c, const char *id, void *arg, struct err *e)
{
	(void)arg;
	return each_post(c, id, "DELETE", "", NULL, e);
}

/* One that ended meanwhile is what was wanted. */
static int kill_all(struct client *c, struct err *e)
{
	json_t *list = NULL;
	int r = api_list(c, "", &list, e);

	for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
		const char *id = api_text(json_array_get(list, i), "sandboxID");
		char path[128];

		if (id == NULL || !api_is_id(id))
			continue;
		(void)snprintf(path, sizeof(path), "/v2/sandboxes/%s", id);
		r = api_call(c, "DELETE", path, NULL, JSON_OBJECT, NULL, e);
		r = r == -ENOENT ? 0 : r;
	}
	json_decref(list);
	return r;
}

static int kill_run(int argc, char **argv)
{
	struct client c = {.http = {.multi = NULL}};
	struct err e = ERR_INIT;
	bool all = false;
	int n, r;

	(void)argc;
	n = r = client_options(&c, opts, ARRAY_LEN(opts), argv, -1, take, &all, &e);
	if (r >= 0 && all)
		r = client_count(n, 0, 0, "--all leaves no room for ids", &e);
	else if (r >= 0)
		r = client_count(n, 1, argc, "name the sandboxes to end, or --all", &e);
	if (r >= 0)
		r = client_open(&c, &e);
	if (r >= 0)
		r = all ? kill_all(&c, &e) : each_run(&c, argv, n, kill_one, NULL, &e);
	return client_end(&c, "kill", r, &e);
}

const struct command_impl client_kill = {
    .run = kill_run, .opts = opts, .nopts = ARRAY_LEN(opts), .words = "SANDBOXES"};

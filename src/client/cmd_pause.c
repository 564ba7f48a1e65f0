/* `brig pause`: POST /sandboxes/ID/pause. */
#include "base/num.h"
#include "client/each.h"

#include <errno.h>

#include "client/options.h"

static int pause_one(struct client *c, const char *id, void *arg, struct err *e)
{
	int r = each_post(c, id, "POST", "/pause", json_object(), e);

	(void)arg;
	return r == -EEXIST ? err_set(e, ERR_CONFLICT, EEXIST, "sandbox %s is paused already", id)
			    : r;
}

static int pause_run(int argc, char **argv)
{
	struct client c = {.http = {.multi = NULL}};
	struct err e = ERR_INIT;
	int n, r;

	n = r = client_options(&c, opts, ARRAY_LEN(opts), argv, -1, each_take, NULL, &e);
	if (r >= 0)
		r = client_count(n, 1, argc, "name the sandboxes to pause", &e);
	if (r >= 0)
		r = client_open(&c, &e);
	if (r >= 0)
		r = each_run(&c, argv, n, pause_one, NULL, &e);
	return client_end(&c, "pause", r, &e);
}

const struct command_impl client_pause = {
    .run = pause_run,
    .opts = opts,
    .nopts = ARRAY_LEN(opts),
    .words = "SANDBOXES",
    .notes = "A paused sandbox keeps its memory, uses no CPU time, and has no end of its own.\n",
};

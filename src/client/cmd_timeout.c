/* `brig timeout`: POST /sandboxes/ID/timeout. */
#include "base/num.h"
#include "client/each.h"

#include <errno.h>

#include "client/options.h"

static int set(struct client *c, char **argv, struct err *e)
{
	char id[BOX_ID_MAX + 1];
	json_int_t seconds = 0;
	int r = client_seconds(argv[2], "TIME", &seconds, e);

	if (r == 0)
		r = client_open(c, e);
	if (r == 0)
		r = api_find_id(c, argv[1], id, e);
	if (r == 0)
		r = each_post(c, id, "POST", "/timeout", json_pack("{s:I}", "timeout", seconds), e);
	return r;
}

static int timeout_run(int argc, char **argv)
{
	struct client c = {.http = {.multi = NULL}};
	struct err e = ERR_INIT;
	int r;

	(void)argc;
	r = client_options(&c, opts, ARRAY_LEN(opts), argv, -1, each_take, NULL, &e);
	if (r >= 0)
		r = client_count(r, 2, 2, "a sandbox and a time are wanted: brig timeout ID 10m",
				 &e);
	if (r >= 0)
		r = set(&c, argv, &e);
	return client_end(&c, "timeout", r, &e);
}

const struct command_impl client_timeout = {
    .run = timeout_run,
    .opts = opts,
    .nopts = ARRAY_LEN(opts),
    .words = "SANDBOXES",
    .notes =
	"It ends TIME from now, whatever it had before; the daemon's max_timeout is the most.\n",
};

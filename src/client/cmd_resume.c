/* `brig resume`: POST /sandboxes/ID/resume. */
#include "base/num.h"
#include "client/each.h"

#include <errno.h>

#define OPT_WANT_TIMEOUT "how long it lives from then on: 10m, 2h (default: 5m)"
#include "client/options.h"

enum { USUAL_S = 300 };

static int take(void *arg, int id, const char *value, struct err *e)
{
	json_int_t *seconds = arg;

	return id == O_TIMEOUT ? client_seconds(value, "--timeout", seconds, e) : 0;
}

static int resume_one(struct client *c, const char *id, void *arg, struct err *e)
{
	const json_int_t *seconds = arg;
	int r = each_post(c, id, "POST", "/resume", json_pack("{s:I}", "timeout", *seconds), e);

	return r == -EEXIST ? err_set(e, ERR_CONFLICT, EEXIST, "sandbox %s is not paused", id) : r;
}

static int resume_run(int argc, char **argv)
{
	struct client c = {.http = {.multi = NULL}};
	json_int_t seconds = USUAL_S;
	struct err e = ERR_INIT;
	int n, r;

	n = r = client_options(&c, opts, ARRAY_LEN(opts), argv, -1, take, &seconds, &e);
	if (r >= 0)
		r = client_count(n, 1, argc, "name the sandboxes to resume", &e);
	if (r >= 0)
		r = client_open(&c, &e);
	if (r >= 0)
		r = each_run(&c, argv, n, resume_one, &seconds, &e);
	return client_end(&c, "resume", r, &e);
}

const struct command_impl client_resume = {
    .run = resume_run, .opts = opts, .nopts = ARRAY_LEN(opts), .words = "SANDBOXES"};

/* `brig gc`: what crashed sandboxes left behind is removed by the next start anyway; this does it now. */
#include "base/num.h"
#include "cmd/command.h"
#include "cmd/say.h"
#include "spawn/runner.h"

#include <stdio.h>
#include <string.h>

#define OPT_WANT_JSON
#include "cli/options_common.h"

static int gc_run(int argc, char **argv)
{
	struct err e = ERR_INIT;
	bool json;
	int r = opt_alone(opts, ARRAY_LEN(opts), argv, O_JSON, &json, &e);

	(void)argc;
	if (r < 0)
		return say_usage("gc", &e);
	r = runner_sweep();
	if (r < 0) {
		(void)err_set(&e, ERR_INTERNAL, -r, "gc: looking for dead sandboxes: %s",
			      strerror(-r));
		return say_err(&e);
	}
	if (json)
		(void)printf("{\"removed\":%d}\n", r);
	else
		(void)printf("%d dead sandbox%s removed\n", r, r == 1 ? "" : "es");
	return fflush(stdout) == 0 ? 0 : EXIT_FAULT;
}

const struct command_impl command_gc = {
    .run = gc_run, .opts = opts, .nopts = ARRAY_LEN(opts), .words = ""};

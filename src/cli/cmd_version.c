/* `brig version`: the version of the program. */
#include "base/num.h"
#include "cmd/command.h"
#include "cmd/say.h"

#include <stdio.h>

#define OPT_WANT_JSON
#include "cli/options_common.h"

static int version_run(int argc, char **argv)
{
	struct err e = ERR_INIT;
	bool json;
	int r = opt_alone(opts, ARRAY_LEN(opts), argv, O_JSON, &json, &e);

	(void)argc;
	if (r < 0)
		return say_usage("version", &e);
	(void)printf(json ? "{\"version\":\"%s\"}\n" : "brig %s\n", BRIG_VERSION);
	return fflush(stdout) == 0 ? 0 : EXIT_FAULT;
}

const struct command_impl command_version = {
    .run = version_run, .opts = opts, .nopts = ARRAY_LEN(opts), .words = ""};

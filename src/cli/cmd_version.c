/* `brig version`: the version of the program. */
#include "base/num.h"
#include "base/quote.h"
#include "cli/command.h"
#include "cli/say.h"

#include <errno.h>
#include <stdio.h>

#define OPT_WANT_JSON
#include "cli/options_common.h"

static int version_run(int argc, char **argv)
{
	struct opt_parser p = opt_parser(opts, ARRAY_LEN(opts), argv);
	const struct opt *o = NULL;
	const char *value = NULL;
	struct err e = ERR_INIT;
	char q[QUOTE_MAX];
	bool json = false;
	int r;

	(void)argc;
	while ((r = opt_next(&p, &o, &value, &e)) > 0)
		json = json || o->id == O_JSON;
	if (r == 0 && argv[p.at] != NULL)
		r = err_set(&e, ERR_INVALID, EINVAL, "%s: it takes no operands",
			    quote(argv[p.at], q));
	if (r < 0)
		return say_usage("version", &e);
	(void)printf(json ? "{\"version\":\"%s\"}\n" : "brig %s\n", BRIG_VERSION);
	return fflush(stdout) == 0 ? 0 : EXIT_FAULT;
}

const struct command_impl command_version = {
    .run = version_run, .opts = opts, .nopts = ARRAY_LEN(opts), .words = ""};

/* `brig help [COMMAND]`. */
#include "base/num.h"
#include "base/quote.h"
#include "base/suggest.h"
#include "cli/command.h"
#include "cli/remote.h"
#include "cmd/help.h"
#include "cmd/say.h"

#include <errno.h>

static const struct opt opts[] = {
#define OPT(id, letter, name, value, arg, words, group, help)                                      \
	{1, letter, name, value, arg, words, group, help},
#include "cli/options_common.def"
#undef OPT
};

int cli_help(void)
{
	return help_list("brig runs code that nobody trusts in a disposable sandbox.\n\n"
			 "usage: brig COMMAND [OPTION]...\n\n",
			 commands, commands_n,
			 "\n'brig help COMMAND' explains one command. Try:\n\n"
			 "  brig run -- python3 -c 'print(6 * 7)'\n"
			 "  brig check\n");
}

static int help_run(int argc, char **argv)
{
	const struct command *c;
	struct err e = ERR_INIT;
	char q[QUOTE_MAX];

	if (argc < 2)
		return cli_help();
	c = command_find(argv[1]);
	if (c != NULL && argc == 2)
		return c->impl == &command_remote ? remote_help(c) : help_command(c);
	if (c != NULL) {
		(void)err_set(&e, ERR_INVALID, EINVAL, "one command at a time");
	} else {
		struct suggest s = SUGGEST(argv[1]);

		for (unsigned int i = 0; i < commands_n; i++)
			suggest_offer(&s, commands[i].name);
		(void)err_set(&e, ERR_INVALID, EINVAL, "no command %s%s%s%s", quote(argv[1], q),
			      s.best != NULL ? ": did you mean '" : "",
			      s.best != NULL ? s.best : "", s.best != NULL ? "'?" : "");
	}
	return say_usage(NULL, &e);
}

const struct command_impl command_help = {
    .run = help_run, .opts = opts, .nopts = ARRAY_LEN(opts), .words = "COMMANDS"};

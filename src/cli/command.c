#include "cli/command.h"
/* The table of commands and the way into them. No locale and no library is set up here: the path of
 * `brig run` must stay short. */
#include "base/num.h"
#include "base/quote.h"
#include "base/suggest.h"
#include "cli/remote.h"
#include "cmd/help.h"
#include "cmd/say.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#define COMMAND(id, name, usage, summary) extern const struct command_impl command_##id;
#include "cli/commands.def"
#undef COMMAND

const struct command commands[] = {
#define COMMAND(id, name, usage, summary) {name, usage, summary, &command_##id},
#include "cli/commands.def"
#undef COMMAND
#define CLIENT(id, name, usage, summary) {name, usage, summary, &command_remote},
#include "cmd/client_commands.def"
#undef CLIENT
};
const unsigned int commands_n = ARRAY_LEN(commands);

const struct command *command_find(const char *name)
{
	for (unsigned int i = 0; i < commands_n; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

static int unknown_command(const char *name)
{
	struct suggest s = SUGGEST(name);
	struct err e = ERR_INIT;
	char q[QUOTE_MAX];

	for (unsigned int i = 0; i < commands_n; i++)
		suggest_offer(&s, commands[i].name);
	(void)quote(name, q);
	if (s.best != NULL)
		(void)err_set(&e, ERR_INVALID, EINVAL, "unknown command %s: did you mean '%s'?", q,
			      s.best);
	else
		(void)err_set(&e, ERR_INVALID, EINVAL, "unknown command %s", q);
	return say_usage(NULL, &e);
}

int cli_main(int argc, char **argv)
{
	const struct command *c;
	struct err e = ERR_INIT;

	/* a parent that ignores it (execve keeps that) would take the children's ends from us */
	(void)sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	if (argc < 2) {
		(void)err_set(&e, ERR_INVALID, EINVAL, "no command given");
		return say_usage(NULL, &e);
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return cli_help();
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
		return command_find("version")->impl->run(1, argv + 1);
	c = command_find(argv[1]);
	if (c == NULL)
		return unknown_command(argv[1]);
	if (command_wants_help(c, argv + 1))
		return help_command(c);
	return c->impl->run(argc - 1, argv + 1);
}

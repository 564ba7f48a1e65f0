#pragma once
/* Commands by table; see commands.def. */
#include "cli/opt.h"

/* What a cmd_<id>.c provides. */
struct command_impl {
	/* argv[0] is the command's name. Returns the exit code of the process. */
	int (*run)(int argc, char **argv);
	const struct opt *opts;
	unsigned int nopts;
	const char *notes; /* text under the options in --help; may be NULL */
	const char *words; /* operands a shell may offer, separated by spaces; NULL = files */
};

struct command {
	const char *name;
	const char *usage;
	const char *summary;
	const struct command_impl *impl;
};

extern const struct command commands[];
extern const unsigned int commands_n;
const struct command *command_find(const char *name); /* NULL when unknown */
/* --help among the command's own options, before its operands; argv[0] is its name. */
bool command_wants_help(const struct command *c, char *const *argv);

/* Exit codes of brig itself. */
enum {
	EXIT_TIMEOUT = 124,
	EXIT_FAULT = 125,
	EXIT_NOEXEC = 126,
	EXIT_NOTFOUND = 127,
	EXIT_SIGNAL = 128, /* + the signal's number */
};

int cli_main(int argc, char **argv);

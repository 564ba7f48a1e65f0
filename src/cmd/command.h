#pragma once
/* A command of brig or of brig-client: what it is called and what it takes. */
#include "cmd/opt.h"

/* What a cmd_<id>.c provides. */
struct command_impl {
	/* argv[0] is the command's name. Returns the exit code of the process. */
	int (*run)(int argc, char **argv);
	const struct opt *opts;
	unsigned int nopts;
	const char *notes; /* text under the options in --help; may be NULL */
	/* Operands a shell may offer, separated by spaces; NULL = files. "COMMANDS" and "SANDBOXES" mean what there is of them. */
	const char *words;
};

struct command {
	const char *name;
	const char *usage;
	const char *summary;
	const struct command_impl *impl;
};

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

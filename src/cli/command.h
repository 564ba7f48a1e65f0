#pragma once
/* Commands by table; see commands.def, and cmd/client_commands.def for those of brig-client. */
#include "cmd/command.h"

extern const struct command commands[];
extern const unsigned int commands_n;
const struct command *command_find(const char *name); /* NULL when unknown */

/* What brig is and its commands, for people. Returns the exit code. */
int cli_help(void);
int cli_main(int argc, char **argv);

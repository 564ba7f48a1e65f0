#pragma once
/* Help from the tables; 79 columns. Both return the exit code. */
#include "cmd/command.h"

/* What a program is, its commands with their summaries, and a last paragraph. */
int help_list(const char *before, const struct command *c, unsigned int n, const char *after);
int help_command(const struct command *c);

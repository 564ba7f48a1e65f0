#pragma once
/* Help from the tables. Both return the exit code. */
#include "cli/command.h"

int help_all(void);
int help_command(const struct command *c);

#pragma once
/* The options that commands of brig share, as cmd/opt_table.h makes a table of them. */
#define OPT_TABLE "cli/options_common.def"
#include "cmd/opt_table.h"

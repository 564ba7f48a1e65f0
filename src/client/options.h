#pragma once
/* The options of brig-client's commands, as cmd/opt_table.h makes a table of them. */
#define OPT_TABLE "client/options.def"
#include "cmd/opt_table.h"

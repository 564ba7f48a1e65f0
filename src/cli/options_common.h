#pragma once
/*
 * The option table of a small command: enum O_* and opts[], from the rows of options_common.def that
 * the including file asked for by OPT_WANT_*. For one .c file each, after its OPT_WANT_* lines.
 */
#include "cli/opt.h"

enum {
	O_NONE,
#define OPT(id, letter, name, value, arg, words, group, help) O_##id,
#include "cli/options_common.def"
#undef OPT
};
static const struct opt opts[] = {
#define OPT(id, letter, name, value, arg, words, group, help)                                      \
	{O_##id, letter, name, value, arg, words, group, help},
#include "cli/options_common.def"
#undef OPT
};

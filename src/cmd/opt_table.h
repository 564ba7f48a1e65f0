#pragma once
/*
 * The option table of one command: enum O_* and opts[], from the rows of OPT_TABLE (a .def file) that the command's file
 * asked for by its OPT_WANT_* lines.
 */
#include "cmd/opt.h"

#ifdef OPT_TABLE
enum {
	O_NONE,
#define OPT(id, letter, name, value, arg, words, group, help) O_##id,
#include OPT_TABLE
#undef OPT
};
static const struct opt opts[] = {
#define OPT(id, letter, name, value, arg, words, group, help)                                      \
	{O_##id, letter, name, value, arg, words, group, help},
#include OPT_TABLE
#undef OPT
};
#endif

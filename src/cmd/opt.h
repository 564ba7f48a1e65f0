#pragma once
/*
 * Command line options by table.
 *
 * Each command has one table (a .def with a row per option). It drives the parser here, `--help`,
 * shell completion and the "did you mean" of a mistyped name. Long names are never abbreviated.
 */
#include "base/err.h"

#include <stdbool.h>

/* What a shell may offer after the option. */
enum opt_value {
	VAL_NONE, /* a switch without a value */
	VAL_TEXT,
	VAL_FILE,
	VAL_DIR,
	VAL_WORDS, /* one of a fixed list, `words` */
};

struct opt {
	int id;            /* the command's own number, > 0 */
	char letter;       /* short name, 0 = none */
	const char *name;  /* long name without the hyphens */
	enum opt_value value;
	const char *arg;   /* name of the value in help, "" for a switch */
	const char *words; /* VAL_WORDS: the words, separated by spaces */
	const char *group; /* heading in help */
	const char *help;
};

struct opt_parser {
	const struct opt *opts;
	unsigned int nopts;
	char *const *argv; /* borrowed; NULL-terminated */
	int at;            /* next element to look at */
	const char *cluster; /* rest of a group of short options */
	bool saw_dashdash;   /* the options ended with "--" */
};

/*
 * The next option. argv[0] is the command's name and is skipped.
 * 1: *ret is the row, *ret_value its value (NULL for a switch).
 * 0: no more options; argv + at are the operands.
 * -EINVAL: unknown option, missing or unwanted value; e says which and what to do.
 */
int must_check opt_next(struct opt_parser *p, const struct opt **ret, const char **ret_value,
			struct err *e);
static inline struct opt_parser opt_parser(const struct opt *opts, unsigned int nopts,
					   char *const *argv)
{
	return (struct opt_parser){.opts = opts, .nopts = nopts, .argv = argv, .at = 1};
}

/* A command without options but one that takes no value: whether that, id, was given. *ret_at: argv's first operand.
 * 0 or -EINVAL. */
int must_check opt_one(const struct opt *opts, unsigned int nopts, char *const *argv, int id, bool *ret_given, int *ret_at,
		       struct err *e);
/* The same of one that takes no operands either. */
int must_check opt_alone(const struct opt *opts, unsigned int nopts, char *const *argv, int id, bool *ret_given, struct err *e);
/* 0 or -EINVAL: argv[at] is an operand, and none is taken. */
int must_check opt_no_operands(char *const *argv, int at, struct err *e);

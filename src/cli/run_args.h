#pragma once
/*
 * What the words after `brig run` ask for. Parsing touches nothing outside the process; loading
 * reads the profile and the caller's variables, and checks the merged settings.
 */
#include "cmd/opt.h"
#include "core/profile.h"
#include "core/spec.h"

enum run_option {
	RUN_NONE,
#define OPT(id, letter, name, value, arg, words, group, help) RUN_##id,
#include "cli/options_run.def"
#undef OPT
	RUN_OPTION_COUNT
};
extern const struct opt run_opts[RUN_OPTION_COUNT - 1];

struct run_args {
	/* after run_args_parse: words borrowed from argv */
	const char *one[RUN_OPTION_COUNT];       /* last value of options with one value */
	bool on[RUN_OPTION_COUNT];               /* given at all */
	struct strv env, secret_names, files, outs, excludes;
	struct strv egress;   /* rules, see cli/run_egress.h */
	uint32_t require;
	char *const *command; /* NULL-terminated, at least one word */
	bool literal;         /* "--" was given: the command is inside, never a script here */

	/* after run_args_load */
	struct spec spec;
	struct profile profile;
	struct strv secrets; /* NAME=VALUE; wiped by run_args_done */
};

int must_check run_args_parse(char *const *argv, struct run_args *ret, struct err *e);
int must_check run_args_load(struct run_args *a, struct err *e);
void run_args_done(struct run_args *a); /* accepts a zeroed or half-filled struct */

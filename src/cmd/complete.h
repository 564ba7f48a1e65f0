#pragma once
/* What completion scripts of all shells say of one command, from its tables. */
#include "cmd/command.h"

/* All commands, for those whose operands are commands. */
struct complete_set {
	const struct command *v;
	unsigned int n;
};

/* One case of the script's function in bash and zsh; lines of its own in fish. */
void complete_bash(const struct command *c, const struct complete_set *all);
void complete_zsh(const struct command *c, const struct complete_set *all);
void complete_fish(const struct command *c, const struct complete_set *all);

/* "run check ..." */
void complete_names(const struct complete_set *all);
/* Text inside single quotes of a shell; ' becomes '\'' (all three shells read it so). */
void complete_quoted(const char *s);
/* Help text inside '...[...]' of zsh's _arguments: brackets and colons have a meaning there. */
void complete_zsh_text(const char *s);

/* By the shell's name; NULL = there is none. */
typedef void complete_fn(const struct command *c, const struct complete_set *all);
complete_fn *complete_for(const char *shell);

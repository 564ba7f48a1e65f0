/*
 * `brig completion SHELL`: completion scripts made from the tables. dist/completions holds what this
 * prints; `make` targets and packages install those.
 */
#include "base/num.h"
#include "base/quote.h"
#include "cli/command.h"
#include "cli/say.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct opt opts[] = {
#define OPT(id, letter, name, value, arg, words, group, help)                                      \
	{1, letter, name, value, arg, words, group, help},
#include "cli/options_common.def"
#undef OPT
};

/* Text inside single quotes of a shell; ' becomes '\'' (all three shells read it so). */
static void quoted(const char *s)
{
	for (; *s != '\0'; s++) {
		if (*s == '\'')
			(void)fputs("'\\''", stdout);
		else
			(void)putchar(*s);
	}
}

static void command_names(void)
{
	for (unsigned int i = 0; i < commands_n; i++)
		(void)printf("%s%s", i > 0 ? " " : "", commands[i].name);
}

static bool offers_commands(const struct command *c)
{
	return c->impl->words != NULL && strcmp(c->impl->words, "COMMANDS") == 0;
}

/* ---- bash ---- */

static void bash_command(const struct command *c)
{
	(void)printf("\t%s)\n\t\tcase $prev in\n", c->name);
	for (unsigned int i = 0; i < c->impl->nopts; i++) {
		const struct opt *o = &c->impl->opts[i];

		if (o->value == VAL_NONE)
			continue;
		(void)printf("\t\t--%s", o->name);
		if (o->letter != '\0')
			(void)printf("|-%c", o->letter);
		(void)printf(") ");
		if (o->value == VAL_WORDS)
			(void)printf("mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$cur\"); return ;;\n", o->words);
		else if (o->value == VAL_DIR)
			(void)printf("mapfile -t COMPREPLY < <(compgen -d -- \"$cur\"); return ;;\n");
		else if (o->value == VAL_FILE)
			(void)printf("mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); return ;;\n");
		else
			(void)printf("return ;;\n");
	}
	(void)printf("\t\tesac\n\t\topts='");
	for (unsigned int i = 0; i < c->impl->nopts; i++)
		(void)printf("%s--%s", i > 0 ? " " : "", c->impl->opts[i].name);
	(void)printf("'\n\t\twords='");
	if (offers_commands(c))
		command_names();
	else if (c->impl->words != NULL)
		(void)fputs(c->impl->words, stdout);
	(void)printf("' ;;\n");
}

static void print_bash(void)
{
	(void)printf("# bash completion for brig; made by 'brig completion bash'\n"
		     "_brig()\n{\n"
		     "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} "
		     "opts='' words=''\n"
		     "\tCOMPREPLY=()\n"
		     "\tif [ \"$COMP_CWORD\" -eq 1 ]; then\n"
		     "\t\tmapfile -t COMPREPLY < <(compgen -W '");
	command_names();
	(void)printf("' -- \"$cur\")\n\t\treturn\n\tfi\n\tcase ${COMP_WORDS[1]} in\n");
	for (unsigned int i = 0; i < commands_n; i++)
		bash_command(&commands[i]);
	(void)printf("\tesac\n"
		     "\tif [[ $cur == -* ]]; then\n"
		     "\t\tmapfile -t COMPREPLY < <(compgen -W \"$opts\" -- \"$cur\")\n"
		     "\telif [ -n \"$words\" ]; then\n"
		     "\t\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
		     "\telse\n"
		     "\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
		     "\tfi\n}\n"
		     "complete -o filenames -F _brig brig\n");
}

/* ---- zsh ---- */

/* Help text inside '...[...]' of _arguments: brackets and colons have a meaning there. */
static void zsh_text(const char *s)
{
	for (; *s != '\0'; s++) {
		if (*s == '[' || *s == ']' || *s == ':' || *s == '\\')
			(void)putchar('\\');
		if (*s == '\'')
			(void)fputs("'\\''", stdout);
		else
			(void)putchar(*s);
	}
}

static void zsh_option(const struct opt *o)
{
	(void)printf(" \\\n\t\t\t'*--%s%s[", o->name, o->value != VAL_NONE ? "=" : "");
	zsh_text(o->help);
	(void)putchar(']');
	if (o->value == VAL_WORDS)
		(void)printf(":%s:(%s)", o->arg, o->words);
	else if (o->value == VAL_FILE)
		(void)printf(":file:_files");
	else if (o->value == VAL_DIR)
		(void)printf(":folder:_files -/");
	else if (o->value == VAL_TEXT)
		(void)printf(":value:");
	(void)putchar('\'');
}

static void print_zsh(void)
{
	(void)printf("#compdef brig\n# zsh completion for brig; made by 'brig completion zsh'\n"
		     "_brig() {\n"
		     "\tlocal -a commands\n\tcommands=(\n");
	for (unsigned int i = 0; i < commands_n; i++) {
		(void)printf("\t\t'%s:", commands[i].name);
		zsh_text(commands[i].summary);
		(void)printf("'\n");
	}
	(void)printf("\t)\n"
		     "\tif (( CURRENT == 2 )); then\n"
		     "\t\t_describe command commands\n\t\treturn\n\tfi\n"
		     "\tlocal command=$words[2]\n"
		     "\tshift words\n\t(( CURRENT-- ))\n"
		     "\tcase $command in\n");
	for (unsigned int i = 0; i < commands_n; i++) {
		const struct command *c = &commands[i];

		(void)printf("\t%s)\n\t\t_arguments -s -S", c->name);
		for (unsigned int k = 0; k < c->impl->nopts; k++)
			zsh_option(&c->impl->opts[k]);
		if (offers_commands(c)) {
			(void)printf(" \\\n\t\t\t'*:command:(");
			command_names();
			(void)printf(")'");
		} else if (c->impl->words != NULL && c->impl->words[0] != '\0') {
			(void)printf(" \\\n\t\t\t'*:word:(%s)'", c->impl->words);
		} else if (c->impl->words == NULL) {
			(void)printf(" \\\n\t\t\t'*:file:_files'");
		}
		(void)printf(" ;;\n");
	}
	(void)printf("\tesac\n}\n_brig \"$@\"\n");
}

/* ---- fish ---- */

static void fish_option(const struct command *c, const struct opt *o)
{
	(void)printf("complete -c brig -n '__fish_seen_subcommand_from %s' -l %s", c->name, o->name);
	if (o->letter != '\0')
		(void)printf(" -s %c", o->letter);
	if (o->value == VAL_WORDS)
		(void)printf(" -x -a '%s'", o->words);
	else if (o->value == VAL_FILE)
		(void)printf(" -r -F");
	else if (o->value == VAL_DIR)
		(void)printf(" -x -a '(__fish_complete_directories)'");
	else if (o->value == VAL_TEXT)
		(void)printf(" -x");
	(void)printf(" -d '");
	quoted(o->help);
	(void)printf("'\n");
}

static void print_fish(void)
{
	(void)printf("# fish completion for brig; made by 'brig completion fish'\n");
	for (unsigned int i = 0; i < commands_n; i++) {
		const struct command *c = &commands[i];

		(void)printf("complete -c brig -n __fish_use_subcommand -f -a %s -d '", c->name);
		quoted(c->summary);
		(void)printf("'\n");
	}
	for (unsigned int i = 0; i < commands_n; i++) {
		const struct command *c = &commands[i];

		if (c->impl->words != NULL) {
			(void)printf("complete -c brig -n '__fish_seen_subcommand_from %s' -f -a '",
				     c->name);
			if (offers_commands(c))
				command_names();
			else
				quoted(c->impl->words);
			(void)printf("'\n");
		}
		for (unsigned int k = 0; k < c->impl->nopts; k++)
			fish_option(c, &c->impl->opts[k]);
	}
}

static int completion_run(int argc, char **argv)
{
	static const struct {
		const char *shell;
		void (*print)(void);
	} shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
	struct err e = ERR_INIT;
	char q[QUOTE_MAX];

	if (argc != 2) {
		(void)err_set(&e, ERR_INVALID, EINVAL, "name one shell: bash, zsh or fish");
		return say_usage("completion", &e);
	}
	for (size_t i = 0; i < ARRAY_LEN(shells); i++) {
		if (strcmp(argv[1], shells[i].shell) != 0)
			continue;
		shells[i].print();
		return fflush(stdout) == 0 ? 0 : EXIT_FAULT;
	}
	(void)err_set(&e, ERR_INVALID, EINVAL, "no completion for %s: there is bash, zsh and fish",
		      quote(argv[1], q));
	return say_usage("completion", &e);
}

const struct command_impl command_completion = {.run = completion_run,
						.opts = opts,
						.nopts = ARRAY_LEN(opts),
						.words = "bash zsh fish"};

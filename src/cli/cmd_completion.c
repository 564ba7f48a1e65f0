/*
 * `brig completion SHELL`: completion scripts made from the tables. dist/completions holds what this
 * prints; `make` targets and packages install those.
 */
#include "base/num.h"
#include "base/quote.h"
#include "cli/command.h"
#include "cli/remote.h"
#include "cmd/complete.h"
#include "cmd/say.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct opt opts[] = {
#define OPT(id, letter, name, value, arg, words, group, help)                                      \
	{1, letter, name, value, arg, words, group, help},
#include "cli/options_common.def"
#undef OPT
};

/* What each command takes: brig-client says that of its own. */
static int print_commands(const char *shell)
{
	const struct complete_set all = {commands, commands_n};

	for (unsigned int i = 0; i < commands_n; i++)
		if (commands[i].impl != &command_remote)
			complete_for(shell)(&commands[i], &all);
	return remote_completion(shell);
}

static int print_bash(const struct complete_set *all)
{
	int r;

	(void)printf("# bash completion for brig; made by 'brig completion bash'\n"
		     "_brig()\n{\n"
		     "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} "
		     "opts='' words=''\n"
		     "\tCOMPREPLY=()\n"
		     "\tif [ \"$COMP_CWORD\" -eq 1 ]; then\n"
		     "\t\tmapfile -t COMPREPLY < <(compgen -W '");
	complete_names(all);
	(void)printf("' -- \"$cur\")\n\t\treturn\n\tfi\n\tcase ${COMP_WORDS[1]} in\n");
	r = print_commands("bash");
	(void)printf("\tesac\n"
		     "\tif [[ $cur == -* ]]; then\n"
		     "\t\tmapfile -t COMPREPLY < <(compgen -W \"$opts\" -- \"$cur\")\n"
		     "\telif [ -n \"$words\" ]; then\n"
		     "\t\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
		     "\telse\n"
		     "\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
		     "\tfi\n}\n"
		     "complete -o filenames -F _brig brig\n");
	return r;
}

static int print_zsh(const struct complete_set *all)
{
	int r;

	(void)printf("#compdef brig\n# zsh completion for brig; made by 'brig completion zsh'\n"
		     "_brig() {\n"
		     "\tlocal -a commands\n\tcommands=(\n");
	for (unsigned int i = 0; i < all->n; i++) {
		(void)printf("\t\t'%s:", all->v[i].name);
		complete_zsh_text(all->v[i].summary);
		(void)printf("'\n");
	}
	(void)printf("\t)\n"
		     "\tif (( CURRENT == 2 )); then\n"
		     "\t\t_describe command commands\n\t\treturn\n\tfi\n"
		     "\tlocal command=$words[2]\n"
		     "\tshift words\n\t(( CURRENT-- ))\n"
		     "\tcase $command in\n");
	r = print_commands("zsh");
	(void)printf("\tesac\n}\n_brig \"$@\"\n");
	return r;
}

static int print_fish(const struct complete_set *all)
{
	(void)printf("# fish completion for brig; made by 'brig completion fish'\n");
	for (unsigned int i = 0; i < all->n; i++) {
		(void)printf("complete -c brig -n __fish_use_subcommand -f -a %s -d '", all->v[i].name);
		complete_quoted(all->v[i].summary);
		(void)printf("'\n");
	}
	return print_commands("fish");
}

static int completion_run(int argc, char **argv)
{
	static const struct {
		const char *shell;
		int (*print)(const struct complete_set *all);
	} shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
	const struct complete_set all = {commands, commands_n};
	struct err e = ERR_INIT;
	char q[QUOTE_MAX];

	if (argc != 2) {
		(void)err_set(&e, ERR_INVALID, EINVAL, "name one shell: bash, zsh or fish");
		return say_usage("completion", &e);
	}
	for (size_t i = 0; i < ARRAY_LEN(shells); i++) {
		int r;

		if (strcmp(argv[1], shells[i].shell) != 0)
			continue;
		r = shells[i].print(&all);
		return fflush(stdout) == 0 ? r : EXIT_FAULT;
	}
	(void)err_set(&e, ERR_INVALID, EINVAL, "no completion for %s: there is bash, zsh and fish",
		      quote(argv[1], q));
	return say_usage("completion", &e);
}

const struct command_impl command_completion = {.run = completion_run,
						.opts = opts,
						.nopts = ARRAY_LEN(opts),
						.words = "bash zsh fish"};

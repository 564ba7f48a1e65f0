#include "cmd/complete.h"

#include <stdio.h>
#include <string.h>

/* Sandboxes are asked of the daemon when somebody presses the key: three shells, three spellings.
 */
#define ASK_IDS "brig ps --quiet 2>/dev/null"

void complete_quoted(const char *s)
{
	for (; *s != '\0'; s++) {
		if (*s == '\'')
			(void)fputs("'\\''", stdout);
		else
			(void)putchar(*s);
	}
}

void complete_names(const struct complete_set *all)
{
	for (unsigned int i = 0; i < all->n; i++)
		(void)printf("%s%s", i > 0 ? " " : "", all->v[i].name);
}

static bool offers(const struct command *c, const char *what)
{
	return c->impl->words != NULL && strcmp(c->impl->words, what) == 0;
}

/* ---- bash ---- */

static void bash_value(const struct opt *o)
{
	(void)printf("\t\t--%s", o->name);
	if (o->letter != '\0')
		(void)printf("|-%c", o->letter);
	(void)printf(") ");
	if (o->value == VAL_WORDS)
		(void)printf("mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$cur\"); return ;;\n",
			     o->words);
	else if (o->value == VAL_DIR)
		(void)printf("mapfile -t COMPREPLY < <(compgen -d -- \"$cur\"); return ;;\n");
	else if (o->value == VAL_FILE)
		(void)printf("mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); return ;;\n");
	else
		(void)printf("return ;;\n");
}

void complete_bash(const struct command *c, const struct complete_set *all)
{
	(void)printf("\t%s)\n\t\tcase $prev in\n", c->name);
	for (unsigned int i = 0; i < c->impl->nopts; i++)
		if (c->impl->opts[i].value != VAL_NONE)
			bash_value(&c->impl->opts[i]);
	(void)printf("\t\tesac\n\t\topts='");
	for (unsigned int i = 0; i < c->impl->nopts; i++)
		(void)printf("%s--%s", i > 0 ? " " : "", c->impl->opts[i].name);
	if (offers(c, "SANDBOXES")) {
		(void)printf("'\n\t\t[[ $cur == -* ]] || words=$(" ASK_IDS ") ;;\n");
		return;
	}
	(void)printf("'\n\t\twords='");
	if (offers(c, "COMMANDS"))
		complete_names(all);
	else if (c->impl->words != NULL)
		(void)fputs(c->impl->words, stdout);
	(void)printf("' ;;\n");
}

/* ---- zsh ---- */

void complete_zsh_text(const char *s)
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
	complete_zsh_text(o->help);
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

void complete_zsh(const struct command *c, const struct complete_set *all)
{
	(void)printf("\t%s)\n\t\t_arguments -s -S", c->name);
	for (unsigned int k = 0; k < c->impl->nopts; k++)
		zsh_option(&c->impl->opts[k]);
	if (offers(c, "COMMANDS")) {
		(void)printf(" \\\n\t\t\t'*:command:(");
		complete_names(all);
		(void)printf(")'");
	} else if (offers(c, "SANDBOXES")) {
		(void)printf(" \\\n\t\t\t\"*:sandbox:($(" ASK_IDS "))\"");
	} else if (c->impl->words != NULL && c->impl->words[0] != '\0') {
		(void)printf(" \\\n\t\t\t'*:word:(%s)'", c->impl->words);
	} else if (c->impl->words == NULL) {
		(void)printf(" \\\n\t\t\t'*:file:_files'");
	}
	(void)printf(" ;;\n");
}

/* ---- fish ---- */

static void fish_option(const struct command *c, const struct opt *o)
{
	(void)printf("complete -c brig -n '__fish_seen_subcommand_from %s' -l %s", c->name,
		     o->name);
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
	complete_quoted(o->help);
	(void)printf("'\n");
}

void complete_fish(const struct command *c, const struct complete_set *all)
{
	if (c->impl->words != NULL) {
		(void)printf("complete -c brig -n '__fish_seen_subcommand_from %s' -f -a '",
			     c->name);
		if (offers(c, "COMMANDS"))
			complete_names(all);
		else if (offers(c, "SANDBOXES"))
			(void)fputs("(" ASK_IDS ")", stdout);
		else
			complete_quoted(c->impl->words);
		(void)printf("'\n");
	}
	for (unsigned int k = 0; k < c->impl->nopts; k++)
		fish_option(c, &c->impl->opts[k]);
}

complete_fn *complete_for(const char *shell)
{
	if (strcmp(shell, "bash") == 0)
		return complete_bash;
	if (strcmp(shell, "zsh") == 0)
		return complete_zsh;
	return strcmp(shell, "fish") == 0 ? complete_fish : NULL;
}

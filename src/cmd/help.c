#include "cmd/help.h"
/* Made from the tables of commands and options. */
#include <stdio.h>
#include <string.h>

enum { COL_HELP = 26, COL_END = 79 };

static void pad(int from, int to)
{
	for (; from < to; from++)
		(void)putchar(' ');
}

/* Print text from column `at`, broken at spaces, later lines starting at column `indent`. */
static void wrapped(const char *text, int at, int indent)
{
	while (*text != '\0') {
		int word = (int)strcspn(text, " ");

		if (at > indent && at + 1 + word > COL_END) {
			(void)putchar('\n');
			pad(0, indent);
			at = indent;
		} else if (at > indent) {
			(void)putchar(' ');
			at++;
		}
		(void)printf("%.*s", word, text);
		at += word;
		text += word;
		text += strspn(text, " ");
	}
	(void)putchar('\n');
}

static void print_option(const struct opt *o)
{
	int at = printf("  ");

	if (o->letter != '\0')
		at += printf("-%c, --%s", o->letter, o->name);
	else
		at += printf("    --%s", o->name);
	if (o->value != VAL_NONE)
		at += printf(" %s", o->arg);
	if (at + 2 > COL_HELP) {
		(void)putchar('\n');
		at = 0;
	}
	pad(at, COL_HELP);
	wrapped(o->help, COL_HELP, COL_HELP);
}

static int finish(void)
{
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : EXIT_FAULT;
}

int help_list(const char *before, const struct command *c, unsigned int n, const char *after)
{
	(void)fputs(before, stdout);
	for (unsigned int i = 0; i < n; i++) {
		int at = printf("  %s", c[i].name);

		pad(at, 14);
		wrapped(c[i].summary, 14, 14);
	}
	(void)fputs(after, stdout);
	return finish();
}

int help_command(const struct command *c)
{
	const char *group = "";

	(void)printf("usage: brig %s %s\n\n", c->name, c->usage);
	(void)printf("%c%s.\n", c->summary[0] - 'a' + 'A', c->summary + 1);
	for (unsigned int i = 0; i < c->impl->nopts; i++) {
		const struct opt *o = &c->impl->opts[i];

		if (strcmp(o->group, group) != 0)
			(void)printf("\n%s:\n", o->group);
		group = o->group;
		print_option(o);
	}
	if (c->impl->notes != NULL)
		(void)printf("\n%s", c->impl->notes);
	return finish();
}

bool command_wants_help(const struct command *c, char *const *argv)
{
	struct opt_parser p = opt_parser(c->impl->opts, c->impl->nopts, argv);
	const struct opt *o = NULL;
	const char *v;

	while (opt_next(&p, &o, &v, NULL) > 0)
		if (o->letter == 'h')
			return true;
	return false;
}

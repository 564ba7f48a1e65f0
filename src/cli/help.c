#include "cli/help.h"
/* Help text, made from commands.def and the option tables; 79 columns. */
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

int help_all(void)
{
	(void)printf("brig runs code that nobody trusts in a disposable sandbox.\n\n"
		     "usage: brig COMMAND [OPTION]...\n\n");
	for (unsigned int i = 0; i < commands_n; i++) {
		int at = printf("  %s", commands[i].name);

		pad(at, 14);
		wrapped(commands[i].summary, 14, 14);
	}
	(void)printf("\n'brig help COMMAND' explains one command. Try:\n\n"
		     "  brig run -- python3 -c 'print(6 * 7)'\n"
		     "  brig check\n");
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

#include "client/client.h"

#include "base/num.h"
#include "base/quote.h"
#include "base/suggest.h"
#include "base/units.h"
#include "cmd/complete.h"
#include "cmd/help.h"
#include "cmd/say.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

/* The way into the commands, and what all of them do at their beginning and end. */

static const struct command commands[] = {
#define CLIENT(id, name, usage, summary) {name, usage, summary, &client_##id},
#include "cmd/client_commands.def"
#undef CLIENT
};

/* ---- options ---- */

static int take_common(struct client *c, int id, const char *value)
{
	switch (id) {
	case OPT_URL:
		c->where.given_url = value;
		return 1;
	case OPT_KEY_FILE:
		c->where.key_file = value;
		return 1;
	case OPT_CA:
		c->where.ca = value;
		return 1;
	case OPT_PLAIN:
		c->where.plain = true;
		return 1;
	default:
		return 0;
	}
}

static int move_rest(char **argv, int at, int n)
{
	while (argv[at] != NULL)
		argv[++n] = argv[at++];
	argv[n + 1] = NULL;
	return n;
}

int client_options(struct client *c, const struct opt *opts, unsigned n, char **argv, int keep,
		   int (*take)(void *arg, int id, const char *value, struct err *e), void *arg,
		   struct err *e)
{
	struct opt_parser p = opt_parser(opts, n, argv);
	const struct opt *o = NULL;
	const char *value = NULL;
	int words = 0;

	for (;;) {
		int r = opt_next(&p, &o, &value, e);

		if (r > 0 && c != NULL && take_common(c, o->id, value))
			continue;
		if (r > 0 && o->letter == 'h') /* who asks behind an id must not get the deed */
			r = err_set(e, ERR_INVALID, EINVAL, "--help stands before everything else");
		else if (r > 0)
			r = take(arg, o->id, value, e);
		else if (r == 0 && (p.saw_dashdash || argv[p.at] == NULL || words == keep))
			return move_rest(argv, p.at, words);
		else if (r == 0)
			argv[++words] = argv[p.at++];
		if (r < 0)
			return r;
	}
}

int client_count(int n, int min, int max, const char *what, struct err *e)
{
	if (n >= min && n <= max)
		return 0;
	return err_set(e, ERR_INVALID, EINVAL, "%s", what);
}

int client_end(struct client *c, const char *command, int r, const struct err *e)
{
	bool opened = c->http.multi != NULL || c->where.shown != NULL;

	client_done(c);
	if (r >= 0)
		return r;
	return opened ? say_err(e) : say_usage(command, e);
}

int client_pair(json_t *o, const char *text, const char *option, struct err *e)
{
	const char *eq = strchr(text, '=');
	char name[256], q[QUOTE_MAX];

	if (eq == NULL || eq == text || (size_t)(eq - text) >= sizeof(name))
		return err_set(e, ERR_INVALID, EINVAL, "%s %s: NAME=VALUE is wanted", option,
			       quote(text, q));
	memcpy(name, text, (size_t)(eq - text));
	name[eq - text] = '\0';
	if (json_object_set_new(o, name, json_string(eq + 1)) < 0)
		return err_set(e, ERR_INVALID, EINVAL, "%s %s: only text in UTF-8 can be sent",
			       option, quote(text, q));
	return 0;
}

int client_seconds(const char *text, const char *what, json_int_t *ret, struct err *e)
{
	uint64_t ms = 0;
	char q[QUOTE_MAX];
	int r = units_duration(text, &ms, e);

	if (r < 0)
		return err_wrap(e, r, "%s %s", what, quote(text, q));
	if (ms < 1000)
		return err_set(e, ERR_INVALID, EINVAL, "%s %s: at least one second is wanted", what,
			       quote(text, q));
	*ret = (json_int_t)MIN((ms + 999) / 1000, (uint64_t)INT32_MAX);
	return 0;
}

/* ---- output ---- */

int client_flush(struct err *e)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	return err_set(e, ERR_INTERNAL, errno != 0 ? errno : EIO,
		       "standard output cannot be written");
}

int client_puts(const char *s, struct err *e)
{
	(void)puts(s);
	return client_flush(e);
}

int client_print(json_t *o, struct err *e)
{
	char *text = o != NULL ? json_dumps(o, JSON_ENSURE_ASCII | JSON_COMPACT) : NULL;
	int r = text == NULL ? err_no_memory(e) : client_puts(text, e);

	json_decref(o);
	free(text);
	return r;
}

/* ---- the program ---- */

static int completion(const char *shell)
{
	const struct complete_set all = {commands, ARRAY_LEN(commands)};
	complete_fn *fn = complete_for(shell);

	for (size_t i = 0; fn != NULL && i < ARRAY_LEN(commands); i++)
		fn(&commands[i], &all);
	return fn != NULL && fflush(stdout) == 0 ? 0 : EXIT_FAULT;
}

static int unknown(const char *name)
{
	struct suggest s = SUGGEST(name);
	struct err e = ERR_INIT;
	char q[QUOTE_MAX];

	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		suggest_offer(&s, commands[i].name);
	(void)err_set(&e, ERR_INVALID, EINVAL, "unknown command %s%s%s%s", quote(name, q),
		      s.best != NULL ? ": did you mean '" : "", s.best != NULL ? s.best : "",
		      s.best != NULL ? "'?" : "");
	return say_usage(NULL, &e);
}

int client_main(int argc, char **argv)
{
	(void)prctl(
	    PR_SET_NAME,
	    "brig-client"); /* brig executes us by a descriptor, whose number would be our name */
	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN},
			NULL); /* EPIPE says it */
	if (argc == 2 && strcmp(argv[1], "--version") == 0)
		return printf("brig-client %s\n", BRIG_VERSION) > 0 && fflush(stdout) == 0
			   ? 0
			   : EXIT_FAULT;
	if (argc == 3 && strcmp(argv[1], "completion") == 0)
		return completion(argv[2]);
	if (argc < 2 || strcmp(argv[1], "--help") == 0)
		return help_list("The commands of brig that talk to a daemon.\n\nusage: brig "
				 "COMMAND [OPTION]...\n\n",
				 commands, ARRAY_LEN(commands),
				 "\n'brig help COMMAND' explains one of them.\n");
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		if (strcmp(commands[i].name, argv[1]) != 0)
			continue;
		if (command_wants_help(&commands[i], argv + 1))
			return help_command(&commands[i]);
		return commands[i].impl->run(argc - 1, argv + 1);
	}
	return unknown(argv[1]);
}

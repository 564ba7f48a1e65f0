/* `brig egress`: the rules of a running sandbox, shown, replaced, and which sandboxes have some. */
#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "cli/command.h"
#include "cli/say.h"
#include "egress/egress.h"
#include "spawn/door.h"
#include "wire/door.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPT_WANT_JSON
#include "cli/options_common.h"

static int finish(void) { return fflush(stdout) == 0 ? 0 : EXIT_FAULT; }

static int set(const char *id, const char *file, bool json)
{
	struct egress g;
	struct door_said said = {.text = NULL};
	struct err e = ERR_INIT;
	char *text = NULL;
	int r;

	egress_init(&g);
	r = egress_add_file(&g, file, &e);
	if (r == 0)
		r = egress_finish(&g, &text, &e);
	egress_done(&g);
	if (r == 0)
		r = door_call(id, DOOR_SET, text, strlen(text), &said, &e);
	free(text);
	free(said.text);
	if (r < 0)
		return say_err(&e);
	if (json)
		(void)printf("{\"sandbox\":\"%s\",\"policy_gen\":%u}\n", id, said.generation);
	return finish();
}

static int show(const char *id, bool json)
{
	struct door_said said = {.text = NULL};
	struct err e = ERR_INIT;
	int r = door_call(id, DOOR_SHOW, NULL, 0, &said, &e);

	if (r < 0)
		return say_err(&e);
	if (json) {
		json_t *o = json_pack("{s:s, s:i, s:s}", "sandbox", id, "policy_gen",
				      (int)said.generation, "rules", said.text);

		if (o == NULL || json_dumpf(o, stdout, JSON_COMPACT) < 0)
			r = EXIT_FAULT;
		json_decref(o);
		(void)printf("\n");
	} else {
		(void)printf("%s", said.text);
	}
	free(said.text);
	return r != 0 ? r : finish();
}

static int list(bool json)
{
	struct err e = ERR_INIT;
	char *ids = NULL, *rest, *id;
	const char *between = "";

	if (door_list(&ids, &e) < 0)
		return say_err(&e);
	rest = ids;
	if (json)
		(void)printf("[");
	while ((id = strsep(&rest, "\n")) != NULL && *id != '\0') {
		(void)printf(json ? "%s\"%s\"" : "%s%s\n", between, id);
		between = json ? "," : "";
	}
	if (json)
		(void)printf("]\n");
	free(ids);
	return finish();
}

static int egress_run(int argc, char **argv)
{
	static const struct {
		const char *word;
		int operands;
	} words[] = {{"set", 2}, {"show", 1}, {"list", 0}};
	struct opt_parser p = opt_parser(opts, ARRAY_LEN(opts), argv + 1);
	const char *value = NULL, *word = argc >= 2 ? argv[1] : "";
	const struct opt *o = NULL;
	struct err e = ERR_INIT;
	bool json = false;
	char q[QUOTE_MAX];
	int r = 0, n = 0, want = -1;

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		want = strcmp(words[i].word, word) == 0 ? words[i].operands : want;
	if (want < 0)
		r = err_set(&e, ERR_INVALID, EINVAL,
			    "%s: 'set ID FILE', 'show ID' or 'list' is needed", quote(word, q));
	while (r == 0 && (r = opt_next(&p, &o, &value, &e)) > 0) {
		json = json || o->id == O_JSON;
		r = 0;
	}
	argv += 1 + p.at;
	while (r == 0 && argv[n] != NULL)
		n++;
	if (r == 0 && n != want)
		r = err_set(&e, ERR_INVALID, EINVAL, "'%s' takes %d operands", word, want);
	if (r < 0)
		return say_usage("egress", &e);
	return want == 2   ? set(argv[0], argv[1], json)
	       : want == 1 ? show(argv[0], json)
			   : list(json);
}

const struct command_impl command_egress = {
    .run = egress_run,
    .opts = opts,
    .nopts = ARRAY_LEN(opts),
    .notes =
	"set: the rules of FILE (as --egress takes it) take the place of all the sandbox has, "
	"those of\n"
	"its command line too, at once or not at all. Connections they do not permit are closed.\n"
	"show: the rules in force, as the gate has them.\n"
	"list: the ids of your sandboxes that have a gate; records of --egress-log hold them "
	"too.\n\n"
	"  brig egress set $(brig egress list) stricter.yaml\n",
    .words = "set show list",
};

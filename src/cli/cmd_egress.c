/* `brig egress`: the rules of a running sandbox, shown, replaced, which sandboxes have some; and whether records are whole. */
#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "cmd/command.h"
#include "cli/egress_verify.h"
#include "cmd/say.h"
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

static void print_chain(const struct egress_chain *c, bool json, const char *between)
{
	char q[QUOTE_MAX];

	if (json)
		(void)printf("%s{\"sandbox\":\"%s\",\"records\":%llu,\"lost\":%llu,\"head\":\"%s\"}", between, quote_bare(c->id, q),
			     (unsigned long long)c->records, (unsigned long long)c->lost, c->head);
	else
		(void)printf("%s %llu %s\n", quote_bare(c->id, q), (unsigned long long)c->records, c->head);
}

/* head: NULL, or what one chain must end with. */
static int verify(const char *file, const char *head, bool json)
{
	struct egress_chains all;
	struct err e = ERR_INIT;
	bool found = head == NULL;
	char q[QUOTE_MAX];

	if (egress_verify(file, &all, &e) < 0)
		return say_err(&e);
	for (uint32_t i = 0; i < all.n; i++)
		found = found || strcmp(all.v[i].head, head) == 0;
	if (!found)
		(void)err_set(&e, ERR_INVALID, EBADMSG, "%s: no sandbox's records end with %.64s: the last ones were cut off or changed",
			      quote_bare(file, q), head);
	if (found && json)
		(void)printf("[");
	for (uint32_t i = 0; found && i < all.n; i++)
		print_chain(&all.v[i], json, i == 0 ? "" : ",");
	if (found && json)
		(void)printf("]\n");
	egress_chains_done(&all);
	return found ? finish() : say_err(&e);
}

static int egress_run(int argc, char **argv)
{
	static const struct {
		const char *word;
		enum { EGRESS_SET, EGRESS_SHOW, EGRESS_LIST, EGRESS_VERIFY } does;
		int least, most;
	} words[] = {{"set", EGRESS_SET, 2, 2}, {"show", EGRESS_SHOW, 1, 1}, {"list", EGRESS_LIST, 0, 0}, {"verify", EGRESS_VERIFY, 1, 2}};
	struct opt_parser p = opt_parser(opts, ARRAY_LEN(opts), argv + 1);
	const char *value = NULL, *word = argc >= 2 ? argv[1] : "";
	const struct opt *o = NULL;
	struct err e = ERR_INIT;
	bool json = false;
	char q[QUOTE_MAX];
	int r = 0, n = 0, want = -1;

	for (int i = 0; i < (int)ARRAY_LEN(words); i++)
		want = strcmp(words[i].word, word) == 0 ? i : want;
	if (want < 0)
		r = err_set(&e, ERR_INVALID, EINVAL,
			    "%s: 'set ID FILE', 'show ID', 'list' or 'verify FILE' is needed", quote(word, q));
	while (r == 0 && (r = opt_next(&p, &o, &value, &e)) > 0) {
		json = json || o->id == O_JSON;
		r = 0;
	}
	argv += 1 + p.at;
	while (r == 0 && argv[n] != NULL)
		n++;
	if (r == 0 && (n < words[want].least || n > words[want].most))
		r = err_set(&e, ERR_INVALID, EINVAL, "'%s' takes %d operand%s", word, words[want].least,
			    words[want].least == 1 ? "" : "s");
	if (r < 0)
		return say_usage("egress", &e);
	switch (words[want].does) {
	case EGRESS_SET:
		return set(argv[0], argv[1], json);
	case EGRESS_SHOW:
		return show(argv[0], json);
	case EGRESS_VERIFY:
		return verify(argv[0], argv[1], json);
	case EGRESS_LIST:
	default:
		return list(json);
	}
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
	"too.\n"
	"verify: whether FILE, written by --egress-log, holds every record as it was written: each names the hash of the one\n"
	"before. Printed are id, number of records and hash of the last one, which the run's --json says too (egress.head);\n"
	"given as HEAD, one must be it.\n\n"
	"  brig egress set $(brig egress list) stricter.yaml\n",
    .words = "set show list verify",
};

/*
 * `brig check`: what this host offers each tier, what is missing and how to get it.
 * Everything comes from the tiers' own probes and that of the limits; exit 0 when every tier asked for can start, 1 when one
 * cannot.
 */
#include "base/num.h"
#include "base/quote.h"
#include "base/suggest.h"
#include "cmd/command.h"
#include "cmd/say.h"
#include "spawn/host_report.h"
#include "tier/tier.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const char tier_words[] =
#define TIER(id, text) #id " "
#include "tier/tiers.def"
#undef TIER
    ;
#define TIER_WORDS tier_words
#define OPT_WANT_TIER
#define OPT_WANT_JSON
#include "cli/options_common.h"

static const char *const level_words[] = {
    [FINDING_OK] = "ok",
    [FINDING_NOTE] = "note",
    [FINDING_WEAKER] = "weaker",
    [FINDING_MISSING] = "missing",
};

static bool can_start(const struct tier_report *r)
{
	for (uint32_t i = 0; i < r->n; i++)
		if (r->f[i].level == FINDING_MISSING)
			return false;
	return true;
}

static const char *verdict(const struct tier_report *r)
{
	if (!can_start(r))
		return "cannot start here";
	for (uint32_t i = 0; i < r->n; i++)
		if (r->f[i].level == FINDING_WEAKER)
			return "ready, with some walls or limits absent";
	return "ready";
}

static void print_report(const struct tier_ops *t, const struct tier_report *r)
{
	(void)printf("%s: %s\n  %s\n\n", t->name, verdict(r), t->summary);
	for (uint32_t i = 0; i < r->n; i++) {
		const struct finding *f = &r->f[i];

		(void)printf("  %-8s %s: %s\n", level_words[f->level], f->what, f->state);
		if (f->fix[0] != '\0')
			(void)printf("           to fix: %s\n", f->fix);
	}
}

static json_t *report_json(const struct tier_ops *t, const struct tier_report *r)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < r->n; i++) {
		const struct finding *f = &r->f[i];
		json_t *one = json_pack("{s:s, s:s, s:s}", "level", level_words[f->level], "what",
					f->what, "state", f->state);

		if (one != NULL && f->fix[0] != '\0')
			(void)json_object_set_new(one, "fix", json_string(f->fix));
		(void)json_array_append_new(list, one);
	}
	return json_pack("{s:s, s:s, s:b, s:o}", "tier", t->name, "summary", t->summary, "ready",
			 can_start(r), "findings", list);
}

static int check_tiers(const char *only, bool json)
{
	json_t *all = json ? json_array() : NULL;
	bool ready = true;

	for (int i = 0; i < TIER_COUNT; i++) {
		const struct tier_ops *t = tier_by_id((enum tier_id)i);
		struct tier_report report = {.n = 0};

		if (only != NULL && strcmp(only, t->name) != 0)
			continue;
		t->probe(&report);
		host_report_limits(&report);
		ready = ready && can_start(&report);
		if (json)
			(void)json_array_append_new(all, report_json(t, &report));
		else
			print_report(t, &report);
	}
	if (json) {
		json_t *top = json_pack("{s:b, s:o}", "ready", ready, "tiers", all);

		(void)json_dumpf(top, stdout, JSON_INDENT(2));
		(void)putchar('\n');
		json_decref(top);
	}
	if (fflush(stdout) != 0)
		return EXIT_FAULT;
	return ready ? 0 : 1;
}

static int check_run(int argc, char **argv)
{
	struct opt_parser p = opt_parser(opts, ARRAY_LEN(opts), argv);
	const char *value = NULL, *only = NULL;
	const struct opt *o = NULL;
	struct err e = ERR_INIT;
	char q[QUOTE_MAX];
	bool json = false;
	int r;

	(void)argc;
	while ((r = opt_next(&p, &o, &value, &e)) > 0) {
		json = json || o->id == O_JSON;
		if (o->id == O_TIER)
			only = value;
	}
	if (r == 0)
		r = opt_no_operands(argv, p.at, &e);
	if (r == 0 && only != NULL && tier_by_name(only) == NULL) {
		struct suggest s = SUGGEST(only);

		for (int i = 0; i < TIER_COUNT; i++)
			suggest_offer(&s, tier_by_id((enum tier_id)i)->name);
		r = err_set(&e, ERR_INVALID, EINVAL, "unknown tier %s: did you mean '%s'?",
			    quote(only, q), s.best != NULL ? s.best : tier_by_id((enum tier_id)0)->name);
	}
	if (r < 0)
		return say_usage("check", &e);
	return check_tiers(only, json);
}

const struct command_impl command_check = {
    .run = check_run, .opts = opts, .nopts = ARRAY_LEN(opts), .words = ""};

/* `brig profile check FILE`: is the profile valid, and what does it make of the defaults? */
#include "base/num.h"
#include "base/quote.h"
#include "base/units.h"
#include "cmd/command.h"
#include "cli/run_args.h"
#include "cmd/say.h"
#include "core/profile.h"
#include "tier/tier.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPT_WANT_JSON
#include "cli/options_common.h"

static void line(const char *key, const char *text) { (void)printf("%-10s %s\n", key, text); }

static void print_size(const char *key, uint64_t v)
{
	char t[UNITS_TEXT];

	line(key, v == 0 ? "no limit" : units_size_text(v, t));
}

static void print_text(const struct spec *s, const struct profile *p)
{
	char t[UNITS_TEXT], q[QUOTE_MAX];
	const char *word;
	size_t at = 0;

	if (p->name != NULL)
		line("name", quote(p->name, q));
	line("tier", s->tier);
	line("image", s->image);
	print_size("memory", s->memory);
	print_size("disk", s->disk);
	(void)snprintf(t, sizeof(t), "%u.%03u", s->cpu_milli / 1000, s->cpu_milli % 1000);
	line("cpus", s->cpu_milli == 0 ? "no limit" : t);
	(void)snprintf(t, sizeof(t), "%u", s->pids);
	line("pids", s->pids == 0 ? "no limit" : t);
	line("timeout", s->timeout_ms == 0 ? "none" : units_duration_text(s->timeout_ms, t));
	line("root", root_mode_name(s->root));
	line("root_caps", root_caps_name(s->root_caps));
	line("sudo", sudo_use_name(s->sudo));
	line("workdir", s->workdir != NULL ? quote(s->workdir, q) : "/workspace");
	line("user", s->user != NULL ? s->user : "the image's default");
	line("egress", "deny-all");
	while ((word = require_word(s->require, &at)) != NULL)
		line("require", word);
	for (uint32_t i = 0; i < s->env.n; i++)
		line("env", quote(s->env.v[i], q));
}

static void print_json(const struct spec *s, const struct profile *p)
{
	json_t *env = json_object(), *need = json_array(), *top;
	const char *word;
	size_t at = 0;

	for (uint32_t i = 0; i < s->env.n; i++) {
		const char *kv = s->env.v[i], *eq = strchr(kv, '=');
		char *name = eq != NULL ? strndup(kv, (size_t)(eq - kv)) : NULL;

		if (name != NULL)
			(void)json_object_set_new(env, name, json_string(eq + 1));
		free(name);
	}
	while ((word = require_word(s->require, &at)) != NULL)
		(void)json_array_append_new(need, json_string(word));
	top = json_pack("{s:s?, s:s, s:s, s:I, s:I, s:f, s:I, s:I, s:s, s:s, s:s, s:s?, s:s?, s:o, s:o}",
			"name", p->name, "tier", s->tier, "image", s->image, "memory",
			(json_int_t)s->memory, "disk", (json_int_t)s->disk, "cpus",
			s->cpu_milli / 1000.0, "pids", (json_int_t)s->pids, "timeout_ms",
			(json_int_t)s->timeout_ms, "root", root_mode_name(s->root), "root_caps",
			root_caps_name(s->root_caps), "sudo", sudo_use_name(s->sudo), "workdir", s->workdir, "user", s->user,
			"require", need, "env", env);
	(void)json_dumpf(top, stdout, JSON_INDENT(2));
	(void)putchar('\n');
	json_decref(top);
}

/* The same way as `brig run --profile FILE` goes, with a command that is never started. */
static int check(const char *file, struct run_args *a, struct err *e)
{
	char run[] = "run", option[] = "--profile", command[] = "true";
	char *path = strdup(file);
	char *const argv[] = {run, option, path, command, NULL};
	int r;

	if (path == NULL)
		return err_no_memory(e);
	r = run_args_parse(argv, a, e);
	if (r == 0)
		r = run_args_load(a, e);
	a->command = NULL;
	a->one[RUN_PROFILE] = NULL;
	free(path);
	return r;
}

static int profile_run(int argc, char **argv)
{
	struct opt_parser p = opt_parser(opts, ARRAY_LEN(opts), argv + 1);
	struct run_args a = {.require = 0};
	const struct opt *o = NULL;
	const char *value = NULL;
	struct err e = ERR_INIT;
	char q[QUOTE_MAX];
	bool json = false;
	int r = 0;

	if (argc < 2)
		r = err_set(&e, ERR_INVALID, EINVAL, "'brig profile check FILE' is needed");
	else if (strcmp(argv[1], "check") != 0)
		r = err_set(&e, ERR_INVALID, EINVAL, "unknown word %s: did you mean 'check'?",
			    quote(argv[1], q));
	while (r == 0 && (r = opt_next(&p, &o, &value, &e)) > 0) {
		json = json || o->id == O_JSON;
		r = 0;
	}
	if (r == 0 && (argv[1 + p.at] == NULL || argv[2 + p.at] != NULL))
		r = err_set(&e, ERR_INVALID, EINVAL, "one FILE is needed");
	if (r < 0)
		return say_usage("profile", &e);
	r = check(argv[1 + p.at], &a, &e);
	if (r == 0 && json)
		print_json(&a.spec, &a.profile);
	else if (r == 0)
		print_text(&a.spec, &a.profile);
	run_args_done(&a);
	if (r < 0)
		return say_err(&e);
	return fflush(stdout) == 0 ? 0 : EXIT_FAULT;
}

const struct command_impl command_profile = {
    .run = profile_run, .opts = opts, .nopts = ARRAY_LEN(opts), .words = "check"};

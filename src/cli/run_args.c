#include "cli/run_args.h"
/*
 * From words to settings: defaults < profile < command line.
 *
 * The words come from the caller, who may be a program passing on what others wrote, so every value
 * has one strict reading and every refusal says which option and why. Nothing is started before all
 * of it was accepted.
 */
#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "base/suggest.h"
#include "base/units.h"
#include "cli/run_egress.h"
#include "image/image.h"
#include "spawn/trust_env.h"
#include "tier/tier.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char tier_words[] =
#define TIER(id, text) #id " "
#include "tier/tiers.def"
#undef TIER
    ;
#define TIER_WORDS tier_words

const struct opt run_opts[RUN_OPTION_COUNT - 1] = {
#define OPT(id, letter, name, value, arg, words, group, help)                                      \
	{RUN_##id, letter, name, value, arg, words, group, help},
#include "cli/options_run.def"
#undef OPT
};

static int add(struct strv *v, const char *word, struct err *e)
{
	return strv_add(v, word) < 0 ? err_no_memory(e) : 0;
}

static int parse_require(const char *list, uint32_t *ret, struct err *e)
{
	while (true) {
		size_t n = strcspn(list, ",");
		uint32_t bit = 0;
		int r = require_parse(list, n, &bit, e);

		if (r < 0)
			return err_wrap(e, r, "--require");
		*ret |= bit;
		if (list[n] == '\0')
			return 0;
		list += n + 1;
	}
}

static int add_env(struct strv *env, const char *word, struct err *e)
{
	char q[QUOTE_MAX];
	const char *eq = strchr(word, '=');

	if (eq == NULL)
		return err_set(e, ERR_INVALID, EINVAL,
			       "--env %s: NAME=VALUE is needed; --secret-env NAME passes your own value",
			       quote(word, q));
	if (eq == word)
		return err_set(e, ERR_INVALID, EINVAL, "--env: the name before '=' is missing");
	return env_put(env, word) < 0 ? err_no_memory(e) : 0;
}

/* Options that may be given many times are collected; of the others the last one counts. */
static int take_option(struct run_args *a, const struct opt *o, const char *value, struct err *e)
{
	a->on[o->id] = true;
	a->one[o->id] = value;
	if (value == NULL) /* a switch */
		return 0;
	if (value[0] == '\0')
		return err_set(e, ERR_INVALID, EINVAL, "--%s: the value is empty", o->name);
	switch (o->id) {
	case RUN_ENV:
		return add_env(&a->env, value, e);
	case RUN_SECRET_ENV:
		return add(&a->secret_names, value, e);
	case RUN_FILE:
		return add(&a->files, value, e);
	case RUN_OUT:
		return add(&a->outs, value, e);
	case RUN_EXCLUDE:
		return add(&a->excludes, value, e);
	case RUN_ALLOW:
		return run_egress_word(&a->egress, EGRESS_ALLOW, value, e);
	case RUN_ALLOW_CIDR:
		return run_egress_word(&a->egress, EGRESS_RANGE, value, e);
	case RUN_DENY:
		return run_egress_word(&a->egress, EGRESS_DENY, value, e);
	case RUN_REQUIRE:
		return parse_require(value, &a->require, e);
	default:
		return 0;
	}
}

int run_args_parse(char *const *argv, struct run_args *ret, struct err *e)
{
	struct opt_parser p = opt_parser(run_opts, ARRAY_LEN(run_opts), argv);
	const struct opt *o = NULL;
	const char *value = NULL;
	int r;

	*ret = (struct run_args){0};
	while ((r = opt_next(&p, &o, &value, e)) > 0) {
		r = take_option(ret, o, value, e);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return r;
	ret->command = argv + p.at;
	ret->literal = p.saw_dashdash;
	if (ret->command[0] == NULL)
		return err_set(e, ERR_INVALID, EINVAL, "no command given");
	if (ret->command[0][0] == '\0')
		return err_set(e, ERR_INVALID, EINVAL, "the command's name is empty");
	if (ret->on[RUN_TTY] && ret->on[RUN_JSON])
		return err_set(e, ERR_INVALID, EINVAL,
			       "--tty and --json exclude each other: a terminal's output is not captured");
	return 0;
}

static int set_text(char **dst, const char *src, struct err *e)
{
	char *copy;

	if (src == NULL)
		return 0;
	copy = strdup(src);
	if (copy == NULL)
		return err_no_memory(e);
	free(*dst);
	*dst = copy;
	return 0;
}

/* A folder is named as the caller sees it, so it is made absolute here. */
static int set_image(struct spec *s, const char *image, struct err *e)
{
	char q[QUOTE_MAX], *real;

	if (image == NULL || strcmp(image, "host") == 0 || image_is_ref(image))
		return set_text(&s->image, image, e);
	real = realpath(image, NULL);
	if (real == NULL)
		return err_set(e, ERR_NOT_FOUND, errno, "--image %s: %s", quote(image, q),
			       strerror(errno));
	free(s->image);
	s->image = real;
	return 0;
}

static int set_limits(struct run_args *a, struct err *e)
{
	const char *const *one = a->one;
	struct spec *s = &a->spec;
	char q[QUOTE_MAX];
	uint64_t v = 0;
	int r;

	if (one[RUN_MEMORY] != NULL && (r = units_size(one[RUN_MEMORY], &s->memory, e)) < 0)
		return err_wrap(e, r, "--memory %s", quote(one[RUN_MEMORY], q));
	if (one[RUN_DISK] != NULL && (r = units_size(one[RUN_DISK], &s->disk, e)) < 0)
		return err_wrap(e, r, "--disk %s", quote(one[RUN_DISK], q));
	if (one[RUN_CPUS] != NULL && (r = units_cpus(one[RUN_CPUS], &s->cpu_milli, e)) < 0)
		return err_wrap(e, r, "--cpus %s", quote(one[RUN_CPUS], q));
	if (one[RUN_TIMEOUT] != NULL && (r = units_duration(one[RUN_TIMEOUT], &s->timeout_ms, e)) < 0)
		return err_wrap(e, r, "--timeout %s", quote(one[RUN_TIMEOUT], q));
	if (one[RUN_PIDS] != NULL) {
		r = units_count(one[RUN_PIDS], UINT32_MAX, &v, e);
		if (r < 0)
			return err_wrap(e, r, "--pids %s", quote(one[RUN_PIDS], q));
		s->pids = (uint32_t)v;
	}
	if (one[RUN_DISK] == NULL && !profile_has(&a->profile, PROFILE_DISK))
		spec_fit_disk(s);
	return 0;
}

static int set_modes(struct run_args *a, struct err *e)
{
	const char *root = a->one[RUN_ROOT], *caps = a->one[RUN_ROOT_CAPS], *sudo = a->one[RUN_SUDO];
	int r;

	if (root != NULL && (r = root_mode_parse(root, &a->spec.root, e)) < 0)
		return err_wrap(e, r, "--root");
	if (caps != NULL && (r = root_caps_parse(caps, &a->spec.root_caps, e)) < 0)
		return err_wrap(e, r, "--root-caps");
	if (sudo != NULL && (r = sudo_use_parse(sudo, &a->spec.sudo, e)) < 0)
		return err_wrap(e, r, "--sudo");
	a->spec.require |= a->require;
	return 0;
}

/* A secret replaces a plain variable of its name: of two, a program may see either. */
static void drop_env(struct strv *env, const char *name)
{
	size_t n = strlen(name);

	for (uint32_t i = 0; i < env->n; i++) {
		if (strncmp(env->v[i], name, n) != 0 || env->v[i][n] != '=')
			continue;
		free(env->v[i]);
		memmove(&env->v[i], &env->v[i + 1], (env->n - i) * sizeof(*env->v)); /* with the NULL */
		env->n--;
		return; /* env_put: there is one at most */
	}
}

static int set_env(struct run_args *a, struct err *e)
{
	char q[QUOTE_MAX];

	for (uint32_t i = 0; i < a->env.n; i++)
		if (env_put(&a->spec.env, a->env.v[i]) < 0)
			return err_no_memory(e);
	for (uint32_t i = 0; i < a->secret_names.n; i++) {
		const char *name = a->secret_names.v[i], *value = getenv(name);
		_cleanup_free_ char *kv = NULL;
		size_t n = strlen(name), m;
		int r;

		if (strchr(name, '=') != NULL)
			return err_set(e, ERR_INVALID, EINVAL,
				       "--secret-env takes a NAME only: the value comes from your environment");
		if (value == NULL)
			return err_set(e, ERR_INVALID, EINVAL,
				       "--secret-env %s: there is no such variable in your environment",
				       quote(name, q));
		m = strlen(value);
		kv = malloc(n + m + 2);
		if (kv == NULL)
			return err_no_memory(e);
		memcpy(kv, name, n);
		kv[n] = '=';
		memcpy(kv + n + 1, value, m + 1);
		r = env_put(&a->secrets, kv);
		explicit_bzero(kv, n + m + 2);
		if (r < 0)
			return err_no_memory(e);
		drop_env(&a->spec.env, name);
	}
	return 0;
}

static int check_tier(const struct spec *s, struct err *e)
{
	struct suggest near = SUGGEST(s->tier);
	char q[QUOTE_MAX];

	if (strcmp(s->tier, "auto") == 0 || tier_by_name(s->tier) != NULL)
		return 0; /* spec_check has its own words for auto */
	for (int i = 0; i < TIER_COUNT; i++)
		suggest_offer(&near, tier_by_id((enum tier_id)i)->name);
	if (near.best != NULL)
		return err_set(e, ERR_INVALID, EINVAL, "tier: unknown tier %s: did you mean '%s'?",
			       quote(s->tier, q), near.best);
	return err_set(e, ERR_INVALID, EINVAL, "tier: unknown tier %s: this version has %s",
		       quote(s->tier, q), tier_words);
}

/* Settings are checked after merging; say where the refused one came from. */
static int where_from(const struct run_args *a, int r, struct err *e)
{
	size_t n = strcspn(e->msg, ":");

	for (size_t i = 0; i < ARRAY_LEN(run_opts); i++) {
		const struct opt *o = &run_opts[i];
		char msg[sizeof(e->msg)];

		if (!a->on[o->id] || strncmp(o->name, e->msg, n) != 0 || o->name[n] != '\0')
			continue;
		memcpy(msg, e->msg, sizeof(msg));
		return err_set(e, e->kind, -r, "--%.250s", msg);
	}
	if (a->one[RUN_PROFILE] != NULL)
		return err_wrap(e, r, "%.100s", a->one[RUN_PROFILE]);
	return r;
}

int run_args_load(struct run_args *a, struct err *e)
{
	struct spec *s = &a->spec;
	int r = 0;

	spec_init(s);
	spec_new_id(s);
	if (env_put(&s->env, "LANG=C.UTF-8") < 0)
		return err_no_memory(e);
	if (a->one[RUN_PROFILE] != NULL)
		r = profile_read(a->one[RUN_PROFILE], s, &a->profile, e);
	if (r == 0)
		r = set_text(&s->tier, a->one[RUN_TIER], e);
	if (r == 0 && s->tier == NULL)
		r = set_text(&s->tier, tier_by_id((enum tier_id)0)->name, e);
	if (r == 0)
		r = set_image(s, a->one[RUN_IMAGE], e);
	if (r == 0 && s->image == NULL)
		r = set_text(&s->image, "host", e);
	if (r == 0)
		r = set_text(&s->task, a->one[RUN_TASK], e);
	if (r == 0)
		r = set_text(&s->user, a->one[RUN_USER], e);
	if (r == 0)
		r = set_text(&s->workdir, a->one[RUN_WORKDIR], e);
	if (r == 0)
		r = set_limits(a, e);
	if (r == 0)
		r = set_modes(a, e);
	if (r == 0)
		r = set_env(a, e);
	if (r == 0)
		r = image_use(s, e);
	if (r == 0)
		r = run_egress_use(a, e);
	if (r == 0)
		r = trust_env(s, e);
	if (r < 0)
		return r;
	r = check_tier(s, e);
	if (r == 0)
		r = spec_check(s, e);
	return r < 0 ? where_from(a, r, e) : 0;
}

void run_args_done(struct run_args *a)
{
	for (uint32_t i = 0; i < a->secrets.n; i++)
		explicit_bzero(a->secrets.v[i], strlen(a->secrets.v[i]));
	strv_done(&a->secrets);
	strv_done(&a->env);
	strv_done(&a->secret_names);
	strv_done(&a->files);
	strv_done(&a->outs);
	strv_done(&a->excludes);
	strv_done(&a->egress);
	spec_done(&a->spec);
	profile_done(&a->profile);
}

/*
 * brig bench: how long brig takes to start, run and end a sandbox, beside its peers, on this machine.
 *
 * Contenders (bench_contenders.def) and workloads (bench_workloads.def) are tables; bench_measure.c has the method. Medians are
 * reported, with minimum and 95th percentile, next to the goals (bench_goals.def). Nothing here passes or fails: times
 * depend on the machine.
 *
 * Installs nothing and needs no root; without root the rows that need it say so.
 */
#include "base/num.h"
#include "cli/bench_priv.h"
#include "cmd/command.h"
#include "cmd/say.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	SAMPLES_DEFAULT = 41,
	IDLE_DEFAULT_MS = 50,
	IDLE_MAX_MS = 10000,
	BURST_DEFAULT = 100,
};
#define PARTS_ALL "true,python,pipe,file,memory,burst"
enum format { FORMAT_TEXT, FORMAT_MARKDOWN, FORMAT_JSON };

enum {
#define OPT(id, ...) OPT_##id,
	OPT_NONE,
#include "cli/options_bench.def"
#undef OPT
};
static const struct opt options[] = {
#define OPT(id, letter, name, value, arg, words, group, help)                                      \
	{OPT_##id, letter, name, value, arg, words, group, help},
#include "cli/options_bench.def"
#undef OPT
};

struct plan {
	struct bench_plan b;
	enum format format;
};

/* Signals that end bench are held back and looked for between samples (bench_measure.c), so that its folder goes too. */
static void hold_signals(sigset_t *old)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &set, old);
}

static int parse_count(const char *s, uint32_t min, uint32_t max, uint32_t *ret)
{
	char *end;
	unsigned long v;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	errno = 0;
	v = strtoul(s, &end, 10);
	if (errno || *end || v < min || v > max)
		return -ERANGE;
	*ret = (uint32_t)v;
	return 0;
}

static bool choose_part(struct plan *p, const char *name, bool *burst)
{
	for (int w = 0; w < WORK_TIMED; w++) {
		if (strcmp(name, bench_works[w].name) == 0)
			return p->b.res.works[w] = true;
	}
	if (strcmp(name, "memory") == 0)
		return p->b.res.memory = true;
	if (strcmp(name, "burst") == 0)
		return *burst = true;
	return false;
}

static bool choose_row(struct plan *p, const char *name)
{
	for (int i = 0; i < ROW_COUNT; i++) {
		if (strcmp(name, bench_rows[i].id) == 0)
			return p->b.res.rows[i] = true;
	}
	return false;
}

/* A comma-separated list of parts (rows: of contenders) of what to measure. */
static int parse_list(struct plan *p, const char *s, bool rows, bool *burst)
{
	while (*s) {
		size_t n = strcspn(s, ",");
		char name[32];

		if (n >= sizeof(name))
			return -EINVAL;
		memcpy(name, s, n);
		name[n] = 0;
		if (!(rows ? choose_row(p, name) : choose_part(p, name, burst)))
			return -EINVAL;
		s += n + (s[n] == ',');
	}
	return 0;
}

static int bad_value(struct err *e, const char *option, const char *must)
{
	return err_set(e, ERR_INVALID, EINVAL, "--%s must be %s", option, must);
}

/* What the options say; lists are looked at last, by choose. */
struct wishes {
	const char *only, *rows;
};

static int take_option(struct plan *p, const struct opt *o, const char *v, struct wishes *w, struct err *e)
{
	struct bench_result *b = &p->b.res;

	switch (o->id) {
	case OPT_SAMPLES:
		if (parse_count(v, 1, BENCH_SAMPLES_MAX, &b->samples))
			return bad_value(e, o->name, "a number from 1 to 10000");
		break;
	case OPT_IDLE:
		if (parse_count(v, 0, IDLE_MAX_MS, &b->idle_ms))
			return bad_value(e, o->name, "a number from 0 to 10000");
		break;
	case OPT_BURST:
		if (parse_count(v, 1, BENCH_BURST_MAX, &b->burst))
			return bad_value(e, o->name, "a number from 1 to 1000");
		break;
	case OPT_ONLY:
		w->only = v;
		break;
	case OPT_ROWS:
		w->rows = v;
		break;
	case OPT_JSON:
		p->format = FORMAT_JSON;
		break;
	case OPT_MARKDOWN:
		p->format = FORMAT_MARKDOWN;
		break;
	default: /* --help was answered before */
		break;
	}
	return 0;
}

static int choose(struct plan *p, const struct wishes *w, struct err *e)
{
	bool burst = false;

	if (parse_list(p, w->only ? w->only : PARTS_ALL, false, &burst))
		return bad_value(e, "only", "a list of " PARTS_ALL);
	if (w->rows && parse_list(p, w->rows, true, &burst))
		return bad_value(e, "rows", "a list of contender ids, as --json prints them");
	for (int i = 0; i < ROW_COUNT && !w->rows; i++)
		p->b.res.rows[i] = true;
	if (!burst)
		p->b.res.burst = 0;
	return 0;
}

static int parse_options(struct plan *p, char *const *argv, struct err *e)
{
	struct opt_parser op = opt_parser(options, ARRAY_LEN(options), argv);
	struct wishes w = {0};
	const struct opt *o;
	const char *v;
	int r;

	while ((r = opt_next(&op, &o, &v, e)) > 0) {
		r = take_option(p, o, v, &w, e);
		if (r)
			return r;
	}
	if (!r && argv[op.at])
		r = err_set(e, ERR_INVALID, EINVAL, "takes no operands");
	return r ? r : choose(p, &w, e);
}

static void plan_done(struct plan *p)
{
	for (int r = 0; r < ROW_COUNT; r++) {
		for (int w = 0; w < WORK_COUNT; w++) {
			free(p->b.res.wall[r][w]);
			free(p->b.res.cpu[r][w]);
		}
	}
	free(p);
}

static int print_all(const struct plan *p)
{
	struct bench_machine m;
	int r = 0;

	bench_machine_read(&m);
	if (p->format == FORMAT_JSON)
		r = bench_print_json(&p->b.res, &m, stdout);
	else
		bench_print(&p->b.res, &m, p->format == FORMAT_MARKDOWN, stdout);
	return r ? r : fflush(stdout) ? -errno : 0;
}

static int bench(struct plan *p, struct err *e)
{
	sigset_t old;
	int r;

	hold_signals(&old);
	r = bench_site_make(&p->b.site, e);
	if (r)
		return r;
	if (isatty(STDERR_FILENO))
		say("bench: this takes a few minutes; leave the machine alone meanwhile");
	bench_spawners_start(p->b.sp, &p->b.site);
	r = bench_measure(&p->b);
	bench_spawners_stop(p->b.sp);
	bench_site_remove(&p->b.site);
	(void)sigprocmask(SIG_SETMASK, &old, NULL); /* ends here if one is pending */
	if (!r)
		r = print_all(p);
	return r ? err_set(e, ERR_INTERNAL, -r, "bench: %s", strerror(-r)) : 0;
}

static int run(int argc, char **argv)
{
	struct plan *p = calloc(1, sizeof(*p));
	struct err e = ERR_INIT;
	int code = 0;

	(void)argc;
	if (!p) {
		(void)err_set(&e, ERR_INTERNAL, ENOMEM, "bench: out of memory");
		return say_err(&e);
	}
	p->b.res.samples = SAMPLES_DEFAULT;
	p->b.res.idle_ms = IDLE_DEFAULT_MS;
	p->b.res.burst = BURST_DEFAULT;
	p->b.res.site = &p->b.site;
	if (parse_options(p, argv, &e))
		code = say_usage("bench", &e);
	else if (bench(p, &e))
		code = say_err(&e);
	plan_done(p);
	return code;
}

const struct command_impl command_bench = {
	.run = run,
	.opts = options,
	.nopts = ARRAY_LEN(options),
	.notes = "Installs nothing. A contender that is missing or needs root is reported with the\n"
		 "reason. Run it on a quiet machine.\n",
	.words = "",
};

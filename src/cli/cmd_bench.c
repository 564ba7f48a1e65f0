/*
 * brig bench: how long brig takes to start, run and end a sandbox, beside its peers, on this machine.
 *
 * Method. Contenders (bench_contenders.def) and workloads (bench_workloads.def) are tables. In each
 * round every contender runs once, in an order shuffled anew; before each sample the machine idles,
 * because a kernel that was just busy answers some waits sooner (RCU grace periods above all). The
 * samples are taken by small forked spawners (bench_spawn.c). Medians are reported, with minimum and
 * 95th percentile, next to the goals (bench_goals.def). A missing or failing contender is a row with
 * its reason, never left out. Nothing here passes or fails: times depend on the machine.
 *
 * Installs nothing and needs no root; without root the rows that need it say so.
 */
#include "base/num.h"
#include "cli/bench_priv.h"
#include "cli/command.h"
#include "cli/say.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	SAMPLES_DEFAULT = 41,
	IDLE_DEFAULT_MS = 50,
	IDLE_MAX_MS = 10000,
	BURST_DEFAULT = 100,
	BURST_REPEATS = 2,
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
	struct bench_site site;
	struct bench_spawner sp[PLACE_COUNT];
	struct bench_result res;
	uint32_t next_n;   /* container ids */
	uint32_t shuffle;  /* state of the generator */
	enum format format;
};

static void rest_ms(uint32_t ms)
{
	struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

	(void)nanosleep(&t, NULL);
}

/* Signals that end bench are held back and looked for between samples, so that its folder goes too. */
static void hold_signals(sigset_t *old)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &set, old);
}

static bool asked_to_stop(void)
{
	sigset_t set;

	return !sigpending(&set) &&
	       (sigismember(&set, SIGINT) || sigismember(&set, SIGTERM) || sigismember(&set, SIGHUP));
}

static void ask(struct plan *p, enum bench_row r, enum bench_workload w, enum bench_kind k, uint32_t count,
		struct bench_answer *a)
{
	struct bench_order o = {.kind = k, .row = r, .work = w, .n = p->next_n, .count = count};

	p->next_n += count;
	if (k != KIND_RELEASE && asked_to_stop()) {
		memset(a, 0, sizeof(*a));
		(void)snprintf(a->text, sizeof(a->text), "interrupted");
		return;
	}
	if (!p->site.program[r][0]) {
		memset(a, 0, sizeof(*a));
		(void)snprintf(a->text, sizeof(a->text), "%s is not installed", bench_rows[r].argv[0]);
		return;
	}
	bench_ask(&p->sp[bench_rows[r].place], &o, a);
}

static void blame(struct plan *p, enum bench_row r, const struct bench_answer *a)
{
	if (!a->ok && !p->res.why[r][0])
		(void)snprintf(p->res.why[r], sizeof(p->res.why[r]), "%s", a->text);
}

/* The order of one round: Fisher-Yates over the rows still running, by a fixed generator so that a
 * run can be repeated. */
static void shuffle(struct plan *p, enum bench_row *v, uint32_t n)
{
	for (uint32_t i = n; i > 1; i--) {
		enum bench_row t = v[i - 1];
		uint32_t k;

		p->shuffle = p->shuffle * 1664525u + 1013904223u;
		k = (p->shuffle >> 8) % i;
		v[i - 1] = v[k];
		v[k] = t;
	}
}

/* One unmeasured run of each contender fills caches and finds those that cannot run. */
static uint32_t warm_up(struct plan *p, enum bench_workload w, enum bench_row live[ROW_COUNT])
{
	uint32_t n = 0;

	for (int i = 0; i < ROW_COUNT; i++) {
		enum bench_row r = (enum bench_row)i;
		struct bench_answer a;

		if (!p->res.rows[r] || !bench_takes_part(r, w))
			continue;
		ask(p, r, w, KIND_SAMPLE, 1, &a);
		blame(p, r, &a);
		if (a.ok)
			live[n++] = r;
	}
	return n;
}

static int measure(struct plan *p, enum bench_workload w)
{
	struct bench_result *b = &p->res;
	enum bench_row live[ROW_COUNT];
	uint32_t n = warm_up(p, w, live);

	for (uint32_t i = 0; i < n; i++) {
		b->wall[live[i]][w] = calloc(b->samples, sizeof(uint64_t));
		b->cpu[live[i]][w] = calloc(b->samples, sizeof(uint64_t));
		if (!b->wall[live[i]][w] || !b->cpu[live[i]][w])
			return -ENOMEM;
	}
	for (uint32_t round = 0; round < b->samples; round++) {
		shuffle(p, live, n);
		for (uint32_t i = 0; i < n; i++) {
			struct bench_answer a;

			if (asked_to_stop())
				return -EINTR;
			rest_ms(b->idle_ms);
			ask(p, live[i], w, KIND_SAMPLE, 1, &a);
			blame(p, live[i], &a);
			if (a.ok) {
				b->wall[live[i]][w][round] = a.wall_ns;
				b->cpu[live[i]][w][round] = a.cpu_us ? a.cpu_us : 1;
			}
		}
	}
	return 0;
}

static void measure_memory(struct plan *p)
{
	struct bench_result *b = &p->res;

	for (int i = 0; i < ROW_COUNT; i++) {
		enum bench_row r = (enum bench_row)i;
		struct bench_answer a;
		int err;

		if (!b->rows[r] || bench_rows[r].flags & (ROW_BASE | ROW_OUTPUT))
			continue;
		ask(p, r, WORK_hold, KIND_HOLD, 1, &a);
		blame(p, r, &a);
		if (!a.ok)
			continue;
		err = bench_pss_read(a.pid, &b->pss[r]);
		b->pss_ok[r] = !err;
		if (err && !b->why[r][0])
			(void)snprintf(b->why[r], sizeof(b->why[r]), "reading its memory: %s", strerror(-err));
		(void)kill(b->pss[r].sleeper > 0 ? b->pss[r].sleeper : a.pid, SIGKILL);
		ask(p, r, WORK_hold, KIND_RELEASE, 1, &a);
	}
}

static void measure_burst(struct plan *p)
{
	struct bench_result *b = &p->res;

	for (int k = 0; k < BURST_REPEATS; k++) {
		for (int i = 0; i < ROW_COUNT; i++) {
			enum bench_row r = (enum bench_row)i;
			struct bench_answer a;

			if (!b->rows[r] || !bench_takes_part(r, WORK_true))
				continue;
			rest_ms(b->idle_ms * 4);
			ask(p, r, WORK_true, KIND_BURST, b->burst, &a);
			blame(p, r, &a);
			if (!a.ok)
				continue;
			if (!b->burst_ns[r] || a.wall_ns < b->burst_ns[r])
				b->burst_ns[r] = a.wall_ns; /* the best of the repeats */
			b->burst_failed[r] += a.failed;
		}
	}
}

static void ask_versions(struct plan *p)
{
	for (int i = 0; i < ROW_COUNT; i++) {
		enum bench_row r = (enum bench_row)i;
		struct bench_answer a;

		if (!p->res.rows[r] || bench_rows[r].flags & (ROW_BASE | ROW_OUTPUT))
			continue;
		ask(p, r, WORK_true, KIND_VERSION, 1, &a);
		if (a.ok)
			(void)snprintf(p->res.version[r], sizeof(p->res.version[r]), "%s", a.text);
	}
}

static int measure_all(struct plan *p)
{
	int r = 0;

	if (getloadavg(&p->res.load, 1) != 1)
		p->res.load = -1;
	ask_versions(p);
	for (int w = 0; w < WORK_TIMED && !r; w++) {
		if (p->res.works[w])
			r = measure(p, (enum bench_workload)w);
	}
	if (!r && p->res.memory)
		measure_memory(p);
	if (!r && p->res.burst)
		measure_burst(p);
	return !r && asked_to_stop() ? -EINTR : r;
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
			return p->res.works[w] = true;
	}
	if (strcmp(name, "memory") == 0)
		return p->res.memory = true;
	if (strcmp(name, "burst") == 0)
		return *burst = true;
	return false;
}

static bool choose_row(struct plan *p, const char *name)
{
	for (int i = 0; i < ROW_COUNT; i++) {
		if (strcmp(name, bench_rows[i].id) == 0)
			return p->res.rows[i] = true;
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
	struct bench_result *b = &p->res;

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
		p->res.rows[i] = true;
	if (!burst)
		p->res.burst = 0;
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
			free(p->res.wall[r][w]);
			free(p->res.cpu[r][w]);
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
		r = bench_print_json(&p->res, &m, stdout);
	else
		bench_print(&p->res, &m, p->format == FORMAT_MARKDOWN, stdout);
	return r ? r : fflush(stdout) ? -errno : 0;
}

static int bench(struct plan *p, struct err *e)
{
	sigset_t old;
	int r;

	hold_signals(&old);
	r = bench_site_make(&p->site, e);
	if (r)
		return r;
	if (isatty(STDERR_FILENO))
		say("bench: this takes a few minutes; leave the machine alone meanwhile");
	bench_spawners_start(p->sp, &p->site);
	r = measure_all(p);
	bench_spawners_stop(p->sp);
	bench_site_remove(&p->site);
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
	p->res.samples = SAMPLES_DEFAULT;
	p->res.idle_ms = IDLE_DEFAULT_MS;
	p->res.burst = BURST_DEFAULT;
	p->res.site = &p->site;
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

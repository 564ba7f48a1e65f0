/*
 * The method of `brig bench`: in each round every contender runs once, in an order shuffled anew; before each sample the machine
 * idles, because a kernel that was just busy answers some waits sooner (RCU grace periods above all). A missing or failing
 * contender is a row with its reason, never left out. Signals that end bench are pending meanwhile and looked for.
 */
#include "cli/bench_priv.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BURST_REPEATS = 2 };

static void rest_ms(uint32_t ms)
{
	struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

	(void)nanosleep(&t, NULL);
}

static bool asked_to_stop(void)
{
	sigset_t set;

	return !sigpending(&set) &&
	       (sigismember(&set, SIGINT) || sigismember(&set, SIGTERM) || sigismember(&set, SIGHUP));
}

static void ask(struct bench_plan *p, enum bench_row r, enum bench_workload w, enum bench_kind k, uint32_t count,
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

static void blame(struct bench_plan *p, enum bench_row r, const struct bench_answer *a)
{
	if (!a->ok && !p->res.why[r][0])
		(void)snprintf(p->res.why[r], sizeof(p->res.why[r]), "%s", a->text);
}

/* The order of one round: Fisher-Yates over the rows still running, by a fixed generator so that a
 * run can be repeated. */
static void shuffle(struct bench_plan *p, enum bench_row *v, uint32_t n)
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
static uint32_t warm_up(struct bench_plan *p, enum bench_workload w, enum bench_row live[ROW_COUNT])
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

static int measure(struct bench_plan *p, enum bench_workload w)
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

static void measure_memory(struct bench_plan *p)
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

static void measure_burst(struct bench_plan *p)
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

static void ask_versions(struct bench_plan *p)
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

int bench_measure(struct bench_plan *p)
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

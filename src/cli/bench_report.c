/*
 * What `brig bench` prints: tables for a reader (plain or Markdown), one JSON object for a machine,
 * and which goals hold. A contender without numbers keeps its row, with the reason.
 */
#include "cli/bench_priv.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

static double ms(uint64_t ns) { return (double)ns / 1e6; }

static struct bench_stat wall(const struct bench_result *b, enum bench_row r, enum bench_workload w)
{
	return bench_stat(b->wall[r][w], b->wall[r][w] ? b->samples : 0);
}

/* The brig row that stands beside a contender: same user. */
static enum bench_row subject(enum bench_row r)
{
	return place_is_user(bench_rows[r].place) ? ROW_brig_user : ROW_brig_root;
}

static double pair(const struct bench_result *b, enum bench_row r, enum bench_workload w)
{
	return bench_pair_ratio(b->wall[subject(r)][w], b->wall[r][w],
				b->wall[r][w] && b->wall[subject(r)][w] ? b->samples : 0);
}

static void judge_ratio(const struct bench_result *b, struct bench_verdict *v,
			enum bench_workload w, bool net, enum bench_row s, enum bench_row p)
{
	struct bench_stat a = wall(b, s, w), c = wall(b, p, w);
	double x = (double)a.median, y = (double)c.median;

	v->known = a.n && c.n;
	if (net) {
		enum bench_row base = place_is_user(bench_rows[p].place) ? ROW_plain_user : ROW_plain_root;
		struct bench_stat at = wall(b, s, WORK_true), ct = wall(b, base, WORK_true);

		v->known = v->known && at.n && ct.n;
		x -= (double)at.median;
		y -= (double)ct.median;
	}
	v->known = v->known && y > 0;
	v->ratio = v->known ? x / y : 0;
	v->holds = v->known && v->ratio <= v->most;
}

static void judge_added(const struct bench_result *b, struct bench_verdict *v,
			enum bench_workload w, enum bench_row s, enum bench_row p)
{
	double ns = 0;

	v->known = bench_pair_added(b->wall[s][w], b->wall[p][w],
				    b->wall[s][w] && b->wall[p][w] ? b->samples : 0, &ns);
	v->ratio = ns / 1e6;
	v->holds = v->known && v->ratio <= v->most;
}

static void judge_memory(const struct bench_result *b, struct bench_verdict *v, enum bench_row r)
{
	v->known = b->pss_ok[r];
	v->ratio = (double)b->pss[r].others / 1048576;
	v->holds = v->known && v->ratio < v->most;
}

uint32_t bench_judge(const struct bench_result *b, struct bench_verdict v[BENCH_VERDICTS_MAX])
{
	uint32_t n = 0;

#define GOAL(work, net, subj, peer, limit, words)                                                  \
	v[n] = (struct bench_verdict){.most = (limit), .text = (words)};                           \
	judge_ratio(b, &v[n++], WORK_##work, net, ROW_##subj, ROW_##peer);
#define ADDED(work, subj, peer, limit, words)                                                      \
	v[n] = (struct bench_verdict){.most = (limit), .text = (words)};                           \
	judge_added(b, &v[n++], WORK_##work, ROW_##subj, ROW_##peer);
#include "cli/bench_goals.def"
#undef GOAL
#undef ADDED
	v[n] = (struct bench_verdict){.most = 2, .text = "idle memory of runner and agent, root, MiB"};
	judge_memory(b, &v[n++], ROW_brig_root);
	v[n] = (struct bench_verdict){.most = 2, .text = "idle memory of runner and agent, user, MiB"};
	judge_memory(b, &v[n++], ROW_brig_user);
	return n;
}

static const char *who(enum bench_row r) { return place_is_user(bench_rows[r].place) ? "user" : "root"; }

static void rule(FILE *f, bool md, const char *widths)
{
	if (md)
		fprintf(f, "%s\n", widths);
}

static void print_workload(const struct bench_result *b, enum bench_workload w, bool md, FILE *f)
{
	fprintf(f, md ? "\n### %s\n\n" : "\n%s\n", bench_works[w].what);
	fprintf(f, md ? "| as | contender | median ms | min | p95 | CPU ms | brig / it | of pairs |\n"
		      : "  as    contender           median ms      min      p95   CPU ms  brig/it  of pairs\n");
	rule(f, md, "|---|---|---:|---:|---:|---:|---:|---:|");
	for (int i = 0; i < ROW_COUNT; i++) {
		enum bench_row r = (enum bench_row)i;
		struct bench_stat s = wall(b, r, w), mine = wall(b, subject(r), w);
		struct bench_stat cpu = bench_stat(b->cpu[r][w], b->cpu[r][w] ? b->samples : 0);

		if (!b->rows[r] || !bench_takes_part(r, w))
			continue;
		if (!s.n) {
			fprintf(f, md ? "| %s | %s | none: %s | | | | | |\n" : "  %-5s %-18s  none: %s\n",
				who(r), bench_rows[r].label, b->why[r]);
			continue;
		}
		fprintf(f, md ? "| %s | %s | %.2f | %.2f | %.2f | %.2f |" : "  %-5s %-18s %10.2f %8.2f %8.2f %8.2f",
			who(r), bench_rows[r].label, ms(s.median), ms(s.min), ms(s.p95),
			(double)cpu.median / 1000);
		if (!mine.n)
			fprintf(f, md ? " - | - |\n" : "        -         -\n");
		else
			fprintf(f, md ? " %.2f | %.2f |\n" : " %8.2f  %8.2f\n",
				(double)mine.median / (double)s.median, pair(b, r, w));
		if (s.n < b->samples && b->why[r][0] && !md)
			fprintf(f, "        %u of %u samples failed: %s\n", b->samples - s.n, b->samples,
				b->why[r]);
	}
}

static void print_memory(const struct bench_result *b, bool md, FILE *f)
{
	fprintf(f, md ? "\n### Idle memory (PSS, KiB) while `sleep` runs\n\n" : "\nidle memory (PSS, KiB) while sleep runs\n");
	fprintf(f, md ? "| as | contender | the command | its other processes | how many |\n"
		      : "  as    contender             command   others  how many\n");
	rule(f, md, "|---|---|---:|---:|---:|");
	for (int i = 0; i < ROW_COUNT; i++) {
		enum bench_row r = (enum bench_row)i;

		if (!b->rows[r] || bench_rows[r].flags & (ROW_BASE | ROW_OUTPUT))
			continue;
		if (!b->pss_ok[r])
			fprintf(f, md ? "| %s | %s | none: %s | | |\n" : "  %-5s %-18s  none: %s\n", who(r),
				bench_rows[r].label, b->why[r]);
		else
			fprintf(f, md ? "| %s | %s | %llu | %llu | %u |\n" : "  %-5s %-18s %10llu %8llu %9u\n",
				who(r), bench_rows[r].label, (unsigned long long)b->pss[r].command / 1024,
				(unsigned long long)b->pss[r].others / 1024, b->pss[r].others_n);
	}
}

static void print_burst(const struct bench_result *b, bool md, FILE *f)
{
	fprintf(f, md ? "\n### %u at once, `true`\n\n" : "\n%u at once, true\n", b->burst);
	fprintf(f, md ? "| as | contender | all ended after ms | ms each | failed |\n"
		      : "  as    contender            all ms  ms each   failed\n");
	rule(f, md, "|---|---|---:|---:|---:|");
	for (int i = 0; i < ROW_COUNT; i++) {
		enum bench_row r = (enum bench_row)i;

		if (!b->rows[r] || !bench_takes_part(r, WORK_true))
			continue;
		if (!b->burst_ns[r])
			fprintf(f, md ? "| %s | %s | none: %s | | |\n" : "  %-5s %-18s  none: %s\n", who(r),
				bench_rows[r].label, b->why[r]);
		else
			fprintf(f, md ? "| %s | %s | %.0f | %.2f | %u |\n" : "  %-5s %-18s %8.0f %8.2f %8u\n",
				who(r), bench_rows[r].label, ms(b->burst_ns[r]),
				ms(b->burst_ns[r]) / b->burst, b->burst_failed[r]);
	}
}

static void print_goals(const struct bench_result *b, bool md, FILE *f)
{
	struct bench_verdict v[BENCH_VERDICTS_MAX];
	uint32_t n = bench_judge(b, v);

	fprintf(f, md ? "\n## Goals\n\n| goal | at most | measured | holds |\n|---|---:|---:|---|\n"
		      : "\ngoals\n");
	for (uint32_t i = 0; i < n; i++) {
		const char *word = !v[i].known ? "not measured" : v[i].holds ? "yes" : "NO";

		char got[32] = "-";

		if (v[i].known)
			(void)snprintf(got, sizeof(got), "%.2f", v[i].ratio);
		fprintf(f, md ? "| %s | %.2f | %s | %s |\n" : "  %-62s at most %.2f  measured %5s  %s\n",
			v[i].text, v[i].most, got, word);
	}
}

/* Is the same command printed already, for another user? */
static bool shown_before(const struct bench_result *b, enum bench_row r)
{
	for (int i = 0; i < (int)r; i++) {
		const char *const *x = bench_rows[i].argv, *const *y = bench_rows[r].argv;

		while (*x && *y && strcmp(*x, *y) == 0) {
			x++;
			y++;
		}
		if (b->rows[i] && !*x && !*y)
			return true;
	}
	return false;
}

static void print_commands(const struct bench_result *b, bool md, FILE *f)
{
	fprintf(f, md ? "\n## Commands and versions\n\nFor the workload `true`. DIR is the folder of this run.\n"
			"In the ordinary user's runs nothing but the user differs.\n\n```\n"
		      : "\ncommands (for true; DIR is the folder of this run)\n");
	for (int i = 0; i < ROW_COUNT; i++) {
		enum bench_row r = (enum bench_row)i;
		enum bench_workload w = bench_rows[r].flags & ROW_OUTPUT ? WORK_pipe : WORK_true;
		struct bench_words o;

		if (!b->rows[r] || shown_before(b, r) || bench_words(b->site, r, w, 0, true, &o))
			continue;
		fprintf(f, "%s%-18s", md ? "" : "  ", bench_rows[r].label);
		for (const char *const *p = o.v; *p; p++)
			fprintf(f, strpbrk(*p, " $|;") ? " '%s'" : " %s", *p);
		fputc('\n', f);
		if (b->version[r][0])
			fprintf(f, "%s%-18s # %s\n", md ? "" : "  ", "", b->version[r]);
	}
	fputs(md ? "```\n" : "", f);
}

void bench_print(const struct bench_result *b, const struct bench_machine *m, bool md, FILE *f)
{
	if (md)
		fputs("# Benchmarks\n\n"
		      "Written by `make bench`. Every number is wall time of a fresh process, from just before the\n"
		      "spawn to the return of `waitpid`; the contenders take turns in shuffled rounds, with an idle\n"
		      "pause before each sample, because tight loops hide waits inside the kernel. `brig / it` is\n"
		      "brig's median divided by the contender's (below 1: brig is faster); `of pairs` is the median of\n"
		      "the ratios within each round. CPU is user and system time of what the command waited for.\n\n"
		      "brig runs with its agent, seccomp, Landlock and, as root, its limits; the others run without\n"
		      "filters and limits. The ordinary user has neither cgroups nor a sub-id range. brig and\n"
		      "bubblewrap return when the result is known and everything inside is dead; what is left of\n"
		      "their namespaces (and brig's cgroups) goes in the moments after, which neither wall nor CPU\n"
		      "time shows. `100 at once` overlaps these ends.\n\n## Machine\n\n",
		      f);
	fprintf(f, "%s%s, %ld cores, %llu MiB; %s; %s; cgroups %s\n", md ? "- " : "", m->cpu, m->cores,
		(unsigned long long)(m->memory >> 20), m->distro, m->kernel, m->cgroups);
	fprintf(f, "%s%u samples, %u ms idle before each; load average %.2f when it began\n", md ? "- " : "",
		b->samples, b->idle_ms, b->load);
	if (md)
		fprintf(f, "- Again: `make bench`, or `brig bench --samples %u --idle %u`\n\n## Results\n",
			b->samples, b->idle_ms);
	for (int w = 0; w < WORK_TIMED; w++) {
		if (b->works[w])
			print_workload(b, (enum bench_workload)w, md, f);
	}
	if (b->memory)
		print_memory(b, md, f);
	if (b->burst)
		print_burst(b, md, f);
	print_goals(b, md, f);
	print_commands(b, md, f);
}

static json_t *json_works(const struct bench_result *b, enum bench_row r)
{
	json_t *all = json_object();

	for (int i = 0; i < WORK_TIMED; i++) {
		enum bench_workload w = (enum bench_workload)i;
		struct bench_stat s = wall(b, r, w);
		struct bench_stat cpu = bench_stat(b->cpu[r][w], b->cpu[r][w] ? b->samples : 0);

		if (!s.n)
			continue;
		json_object_set_new(all, bench_works[w].name,
				    json_pack("{s:I,s:I,s:I,s:I,s:I,s:f}", "samples", (json_int_t)s.n,
					      "median_ns", (json_int_t)s.median, "min_ns", (json_int_t)s.min,
					      "p95_ns", (json_int_t)s.p95, "cpu_us", (json_int_t)cpu.median,
					      "brig_pair_ratio", pair(b, r, w)));
	}
	return all;
}

static json_t *json_row(const struct bench_result *b, enum bench_row r)
{
	json_t *o = json_pack("{s:s,s:s,s:s,s:s,s:s,s:o}", "id", bench_rows[r].id, "label",
			      bench_rows[r].label, "as", who(r), "version", b->version[r], "failure", b->why[r],
			      "times", json_works(b, r));

	if (o && b->pss_ok[r])
		json_object_set_new(o, "pss", json_pack("{s:I,s:I}", "command", (json_int_t)b->pss[r].command,
							"others", (json_int_t)b->pss[r].others));
	if (o && b->burst_ns[r])
		json_object_set_new(o, "burst",
				    json_pack("{s:I,s:I,s:I}", "count", (json_int_t)b->burst, "wall_ns",
					      (json_int_t)b->burst_ns[r], "failed",
					      (json_int_t)b->burst_failed[r]));
	return o;
}

int bench_print_json(const struct bench_result *b, const struct bench_machine *m, FILE *f)
{
	struct bench_verdict v[BENCH_VERDICTS_MAX];
	uint32_t n = bench_judge(b, v);
	json_t *rows = json_array(), *goals = json_array(), *all;
	int r;

	for (int i = 0; i < ROW_COUNT; i++) {
		if (b->rows[i])
			json_array_append_new(rows, json_row(b, (enum bench_row)i));
	}
	for (uint32_t i = 0; i < n; i++)
		json_array_append_new(goals, json_pack("{s:s,s:f,s:f,s:b,s:b}", "goal", v[i].text, "most",
						       v[i].most, "measured", v[i].ratio, "known",
						       (int)v[i].known, "holds", (int)v[i].holds));
	all = json_pack("{s:{s:s,s:I,s:I,s:s,s:s,s:s},s:I,s:I,s:f,s:o,s:o}", "machine", "cpu", m->cpu, "cores",
			(json_int_t)m->cores, "memory", (json_int_t)m->memory, "distribution", m->distro,
			"kernel", m->kernel, "cgroups", m->cgroups, "samples", (json_int_t)b->samples,
			"idle_ms", (json_int_t)b->idle_ms, "load", b->load, "contenders", rows, "goals", goals);
	if (!all)
		return -ENOMEM;
	r = json_dumpf(all, f, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) || fputc('\n', f) == EOF ? -EIO : 0;
	json_decref(all);
	return r;
}

/*
 * How long the gate's pure part takes (tests/bench/egress.py): with N rules of every kind, decisions for destinations that
 * match the first of them, the last, one by a wildcard, one by a range, and none. Standard output, a line each:
 *
 *   decide NS NS ...   one decision with its address, for each batch
 *   line NS NS ...     its record as a JSON line
 *
 *   judge_bench RULES BATCHES
 */
#include "base/num.h"
#include "gate/judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 500, KINDS = 5, RULES_MIN = 10, RULES_MAX = 100000, TEXT_PER_RULE = 64 };

static double now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static struct judge *rules(int n)
{
	size_t size = (size_t)n * TEXT_PER_RULE, at = 0;
	char *text = malloc(size);
	struct err e = ERR_INIT;
	struct judge *j = NULL;

	for (int i = 0; text != NULL && i < n; i++) {
		char *to = text + at;
		size_t room = size - at;

		switch (i % KINDS) {
		case 0:
			at += (size_t)snprintf(to, room, "allow host%d.zone%d.example:443/tls\n", i, i % 16);
			break;
		case 1:
			at += (size_t)snprintf(to, room, "allow *.many%d.zone%d.example:443/tls\n", i, i % 16);
			break;
		case 2:
			at += (size_t)snprintf(to, room, "allow **.deep%d.zone%d.example:443/tls\n", i, i % 16);
			break;
		case 3:
			at += (size_t)snprintf(to, room, "range 93.%d.%d.0/24:8000-8099\n", i / 256 % 256, i % 256);
			break;
		default:
			at += (size_t)snprintf(to, room, "deny bad%d.zone%d.example:443\n", i, i % 16);
		}
	}
	if (text == NULL || judge_new(text, at, &j, &e) < 0) {
		(void)fprintf(stderr, "judge_bench: %s\n", e.msg);
		exit(1);
	}
	free(text);
	return j;
}

static struct judge_dest named(const char *kind, int i)
{
	struct judge_dest d = {.named = true, .port = 443};

	(void)snprintf(d.name, sizeof(d.name), "%s%d.zone%d.example", kind, i, i % 16);
	return d;
}

int main(int argc, char **argv)
{
	int n = argc == 3 ? atoi(argv[1]) : 0, batches = argc == 3 ? atoi(argv[2]) : 0, last, allowed = 0;
	struct judge_dest d[KINDS + 1];
	struct resolve_addr server = {.a = {93, 184, 216, 34}};
	struct judge_verdict v = {.allow = false};
	const char *why = NULL;
	struct judge *j;
	struct buf line;

	if (n < RULES_MIN || n > RULES_MAX || batches < 1) {
		(void)fprintf(stderr, "usage: judge_bench RULES BATCHES\n");
		return 2;
	}
	j = rules(n);
	last = (n / KINDS - 1) * KINDS;
	d[0] = named("host", 0);
	d[1] = named("host", last);
	d[2] = named("any.many", last + 1);
	d[3] = named("a.b.c.deep", last + 2);
	d[4] = (struct judge_dest){.port = 8001, .orig = {.a = {93, (uint8_t)((last + 3) / 256), (uint8_t)((last + 3) % 256), 7}}};
	d[5] = named("stranger", 1);
	(void)printf("decide");
	for (int b = 0; b < batches; b++) {
		double t = now_ns();

		for (int i = 0; i < BATCH; i++) {
			const struct judge_dest *one = &d[i % (KINDS + 1)];

			judge_decide(j, one, &v);
			if (v.allow && judge_addr(j, one, &v, one->named ? &server : &one->orig, false, &why))
				allowed++;
		}
		(void)printf(" %.0f", (now_ns() - t) / BATCH);
	}
	judge_decide(j, &d[1], &v);
	buf_init(&line, 1 << 20);
	(void)printf("\nline");
	for (int b = 0; b < batches; b++) {
		double t = now_ns();

		for (int i = 0; i < BATCH; i++) {
			const struct judge_who who = {.sandbox = "a2b3", .lifecycle = "a2b3", .lineage = "a2b3", .tier = "container"};
			const struct judge_record r = {.event = "connect", .allow = true, .reason = v.reason, .rule = v.rule,
						       .transport = "tcp", .dest = &d[1], .dialed = &server};
			const struct judge_place at = {.seq = (uint64_t)i, .prev_hash = ""};

			if (judge_line(j, &r, &who, &at, &line) < 0)
				return 1;
			buf_consume(&line, line.len);
		}
		(void)printf(" %.0f", (now_ns() - t) / BATCH);
	}
	(void)printf("\n");
	buf_done(&line);
	judge_free(j);
	/* all but the last kind are permitted: else something else was measured */
	return allowed == batches * (BATCH - BATCH / (KINDS + 1)) ? 0 : 1;
}

#pragma once
/*
 * Parts of `brig bench`, see cmd_bench.c. Times are nanoseconds of CLOCK_MONOTONIC, 0 = no sample.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum bench_sink { SINK_NULL, SINK_PIPE, SINK_FILE, SINK_HOLD };

enum bench_workload {
#define WORKLOAD(id, ...) WORK_##id,
#include "cli/bench_workloads.def"
#undef WORKLOAD
	WORK_COUNT,
	WORK_TIMED = WORK_hold, /* the timed ones come first */
};

enum bench_row {
#define CONTENDER(id, ...) ROW_##id,
#include "cli/bench_contenders.def"
#undef CONTENDER
	ROW_COUNT,
};

enum bench_place { PLACE_ROOT, PLACE_ROOT_V2, PLACE_ROOT_BARE, PLACE_USER, PLACE_USER_V2, PLACE_COUNT };
enum { ROW_BRIG = 1, ROW_BASE = 2, ROW_OUTPUT = 4 }; /* flags */
enum { BENCH_ARGV_MAX = 64, BENCH_SAMPLES_MAX = 10000, BENCH_BURST_MAX = 1000 };
enum { BENCH_USER_ID = 12345 }; /* the ordinary user when bench itself runs as root */

struct work_desc {
	const char *name, *what;
	enum bench_sink sink;
	uint64_t bytes;
	const char *const *argv;
};
struct row_desc {
	const char *id, *label;
	enum bench_place place;
	unsigned flags;
	const char *const *argv;
};
extern const struct work_desc bench_works[WORK_COUNT];
extern const struct row_desc bench_rows[ROW_COUNT];

static inline bool place_is_user(enum bench_place p) { return p >= PLACE_USER; }
/* Does this row take part in this workload? */
static inline bool bench_takes_part(enum bench_row r, enum bench_workload w)
{
	return !(bench_rows[r].flags & ROW_OUTPUT) || w == WORK_pipe || w == WORK_file;
}

/* Where bench keeps its files: a fresh folder below $TMPDIR or /tmp with the bundles. */
struct bench_site {
	char dir[128];
	char brig[4096];              /* our own executable */
	char program[ROW_COUNT][128]; /* found executable of each row, "" = missing */
	uid_t uid;                    /* of the PLACE_USER spawners */
};
int must_check bench_site_make(struct bench_site *s, struct err *e);
void bench_site_remove(const struct bench_site *s);
/* The command line of one sample. Words point into *s, the tables or `scratch`. show: as printed
 * for a reader, without the paths of this run. */
struct bench_words {
	const char *v[BENCH_ARGV_MAX + 1];
	char scratch[3][256];
};
int must_check bench_words(const struct bench_site *s, enum bench_row r, enum bench_workload w,
			   uint32_t n, bool show, struct bench_words *o);

/* One order to a spawner, and what came of it. */
enum bench_kind { KIND_SAMPLE, KIND_BURST, KIND_HOLD, KIND_RELEASE, KIND_VERSION };
struct bench_order {
	enum bench_kind kind;
	enum bench_row row;
	enum bench_workload work;
	uint32_t n;     /* number of the first container */
	uint32_t count; /* KIND_BURST: how many at once */
};
struct bench_answer {
	bool ok;
	pid_t pid; /* KIND_HOLD */
	uint32_t failed;
	uint64_t wall_ns, cpu_us;
	char text[200]; /* why not ok; KIND_VERSION: the first line */
};
struct bench_spawner {
	pid_t pid;
	int fd; /* -1: none, `why` says why */
	char why[200];
};
/* In a spawner: orders that come by fd, until there are no more. 0 or -errno. */
int must_check bench_serve(int fd, const struct bench_site *site, enum bench_place place);
/* Why an order was not carried out. Returns -1. */
int bench_fault(struct bench_answer *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void bench_spawners_start(struct bench_spawner s[PLACE_COUNT], const struct bench_site *site);
void bench_spawners_stop(struct bench_spawner s[PLACE_COUNT]);
/* One order, one answer; a->ok is false with a reason when anything failed. */
void bench_ask(struct bench_spawner *s, const struct bench_order *o, struct bench_answer *a);

/* Proportional set size of a command's process tree while it holds one idle `sleep`. */
struct bench_pss {
	uint64_t command; /* the process that was started; bytes */
	uint64_t others;  /* its descendants without the workload's own process; bytes */
	uint32_t others_n;
	pid_t sleeper; /* the workload's process, 0 = not found */
};
/* Waits for the sleeper, lets the tree idle, reads. -ESRCH, -EACCES. */
int must_check bench_pss_read(pid_t root, struct bench_pss *ret);

/* Numbers over samples; zeros are missing samples and left out. */
struct bench_stat {
	uint32_t n;
	uint64_t min, median, p95;
};
struct bench_stat bench_stat(const uint64_t *v, uint32_t n);
/* Median of a[i] / b[i] over the rounds that have both; 0 = none. */
double bench_pair_ratio(const uint64_t *a, const uint64_t *b, uint32_t n);
/* Median of a[i] - b[i] over the same rounds, ns; false = none. */
bool bench_pair_added(const uint64_t *a, const uint64_t *b, uint32_t n, double *ret);

/* Everything that was found out. */
struct bench_result {
	const struct bench_site *site;
	uint32_t samples, idle_ms, burst;
	bool works[WORK_COUNT]; /* chosen */
	bool rows[ROW_COUNT];
	bool memory;
	uint64_t *wall[ROW_COUNT][WORK_COUNT]; /* [samples], owned; NULL = not measured */
	uint64_t *cpu[ROW_COUNT][WORK_COUNT];
	char why[ROW_COUNT][200];     /* "" or why the row has no numbers */
	char version[ROW_COUNT][200]; /* first line of PROGRAM --version */
	struct bench_pss pss[ROW_COUNT];
	bool pss_ok[ROW_COUNT];
	uint64_t burst_ns[ROW_COUNT]; /* wall time for all, 0 = not measured */
	uint32_t burst_failed[ROW_COUNT];
	double load; /* load average when it began */
};

/* A run: what is chosen in res is measured into it. */
struct bench_plan {
	struct bench_site site;
	struct bench_spawner sp[PLACE_COUNT];
	struct bench_result res;
	uint32_t next_n;  /* container ids */
	uint32_t shuffle; /* state of the generator */
};
/* 0, -ENOMEM, -EINTR: a signal that ends us is pending. */
int must_check bench_measure(struct bench_plan *p);

struct bench_verdict {
	bool known, holds;
	double ratio, most; /* what was measured, whatever it is of */
	const char *text;
};
enum { BENCH_VERDICTS_MAX = 32 };
uint32_t bench_judge(const struct bench_result *b, struct bench_verdict v[BENCH_VERDICTS_MAX]);

struct bench_machine {
	char cpu[128], kernel[160], distro[128];
	const char *cgroups;
	long cores;
	uint64_t memory;
};
void bench_machine_read(struct bench_machine *m);

void bench_print(const struct bench_result *b, const struct bench_machine *m, bool md, FILE *f);
int must_check bench_print_json(const struct bench_result *b, const struct bench_machine *m, FILE *f);

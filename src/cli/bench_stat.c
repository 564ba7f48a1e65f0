/*
 * Statistics of `brig bench`: medians, because start times have a long right tail, and ratios of
 * pairs, because two contenders measured in the same round saw the same machine. Pure.
 */
#include "cli/bench_priv.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int by_number(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

struct bench_stat bench_stat(const uint64_t *v, uint32_t n)
{
	struct bench_stat s = {0};
	uint64_t *sorted = n ? calloc(n, sizeof(*sorted)) : NULL;

	if (!sorted || !v) {
		free(sorted);
		return s;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (v[i])
			sorted[s.n++] = v[i];
	}
	if (s.n) {
		qsort(sorted, s.n, sizeof(*sorted), by_value);
		s.min = sorted[0];
		s.median = s.n % 2 ? sorted[s.n / 2] : (sorted[s.n / 2 - 1] + sorted[s.n / 2]) / 2;
		s.p95 = sorted[((uint64_t)s.n * 95 + 99) / 100 - 1]; /* nearest rank */
	}
	free(sorted);
	return s;
}

static double ratio(double a, double b) { return a / b; }
static double added(double a, double b) { return a - b; }

/* Median of f over the rounds that have both samples. How many those were. */
static uint32_t pairs(const uint64_t *a, const uint64_t *b, uint32_t n,
		      double (*f)(double a, double b), double *ret)
{
	double *r = n ? calloc(n, sizeof(*r)) : NULL;
	uint32_t k = 0;

	*ret = 0;
	if (!r || !a || !b) {
		free(r);
		return 0;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (a[i] && b[i])
			r[k++] = f((double)a[i], (double)b[i]);
	}
	if (k) {
		qsort(r, k, sizeof(*r), by_number);
		*ret = k % 2 ? r[k / 2] : (r[k / 2 - 1] + r[k / 2]) / 2;
	}
	free(r);
	return k;
}

double bench_pair_ratio(const uint64_t *a, const uint64_t *b, uint32_t n)
{
	double ret;

	(void)pairs(a, b, n, ratio, &ret);
	return ret;
}

bool bench_pair_added(const uint64_t *a, const uint64_t *b, uint32_t n, double *ret)
{
	return pairs(a, b, n, added, ret) > 0;
}

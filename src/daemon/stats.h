#pragma once
/* What /metrics counts. */
#include <stdbool.h>
#include <stdint.h>

enum { STATS_BUCKETS = 14 };

struct stats {
#define STAT(name, text) uint64_t name;
#include "daemon/stats.def"
#undef STAT
	struct stats_starts {
		uint64_t bucket[STATS_BUCKETS + 1]; /* the last: all above */
		uint64_t us_sum, n;
	} start[2]; /* new ones, from the pool */
};

extern const uint32_t stats_bucket_ms[STATS_BUCKETS]; /* upper bounds */
/* A sandbox was created in this time. */
void stats_start(struct stats *s, bool warm, uint64_t us);

#pragma once
/* What /metrics counts. */
#include <stdint.h>

enum { STATS_BUCKETS = 14 };

struct stats {
#define STAT(name, text) uint64_t name;
#include "daemon/stats.def"
#undef STAT
	uint64_t start_bucket[STATS_BUCKETS + 1]; /* the last: all above */
	uint64_t start_us_sum, start_n;
};

extern const uint32_t stats_bucket_ms[STATS_BUCKETS]; /* upper bounds */
/* A sandbox was created in this time. */
void stats_start(struct stats *s, uint64_t us);

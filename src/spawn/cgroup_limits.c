#include "spawn/cgroup.h"

#include "base/num.h"
#include "sys/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The limits of a sandbox as its cgroup files have them, read back: what was asked for and what the
 * kernel took need not be one. cgroups(7); cpu time in thousandths of one processor. */

static void take(struct cg_limit *l, uint64_t value)
{
	*l = (struct cg_limit){.known = true, .value = value};
}

/* "max" or a number, and for cpu.max its period. */
static void v2_one(int dir_fd, const char *file, uint64_t milli, struct cg_limit *ret)
{
	char text[64], *end = text;
	uint64_t v, period;

	if (file_get(dir_fd, file, text, sizeof(text)) <= 0)
		return;
	v = strncmp(text, "max", 3) == 0 ? UINT64_MAX : strtoull(text, &end, 10);
	if (v == UINT64_MAX || milli == 0) {
		take(ret, v);
		return;
	}
	period = strtoull(end, NULL, 10);
	if (period > 0 && mul_u64(v, milli, &v))
		take(ret, v / period);
}

static void v1_cpu(int dir_fd, struct cg_limit *ret)
{
	uint64_t quota, period;
	char text[32];

	if (file_get(dir_fd, "cpu.cfs_quota_us", text, sizeof(text)) <= 0)
		return;
	quota = text[0] == '-' ? UINT64_MAX : strtoull(text, NULL, 10); /* -1: none */
	if (quota == UINT64_MAX)
		take(ret, quota);
	else if (file_get_u64(dir_fd, "cpu.cfs_period_us", &period) == 0 && period > 0 &&
		 mul_u64(quota, 1000, &quota))
		take(ret, quota / period);
}

static void v1_number(int dir_fd, const char *file, struct cg_limit *ret)
{
	uint64_t v;
	int r = dir_fd < 0 ? -ENOENT : file_get_u64(dir_fd, file, &v);

	if (r == 0)
		take(ret, v);
	else if (r == -EINVAL) /* the word "max" */
		take(ret, UINT64_MAX);
}

void cgset_limits(const struct cgset *c, struct cg_limit ret[CG_V1_COUNT])
{
	memset(ret, 0, CG_V1_COUNT * sizeof(*ret));
	if (c->v2_limits) {
		v2_one(c->v2_fd, "memory.max", 0, &ret[CG_V1_MEMORY]);
		v2_one(c->v2_fd, "pids.max", 0, &ret[CG_V1_PIDS]);
		v2_one(c->v2_fd, "cpu.max", 1000, &ret[CG_V1_CPU]);
		return;
	}
	v1_number(c->v1_fd[CG_V1_MEMORY], "memory.limit_in_bytes", &ret[CG_V1_MEMORY]);
	v1_number(c->v1_fd[CG_V1_PIDS], "pids.max", &ret[CG_V1_PIDS]);
	if (c->v1_fd[CG_V1_CPU] >= 0)
		v1_cpu(c->v1_fd[CG_V1_CPU], &ret[CG_V1_CPU]);
}

#include "spawn/cgroup.h"

#include "sys/file.h"

#include <stdlib.h>
#include <string.h>

/* What a sandbox has used and uses now, as its cgroups count it. */

/* The number after "key " in a flat keyed file such as memory.events. */
static uint64_t keyed(int dirfd, const char *file, const char *key)
{
	char text[2048], *line, *save = NULL;
	size_t len = strlen(key);

	if (dirfd < 0 || file_get(dirfd, file, text, sizeof(text)) < 0)
		return 0;
	for (line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save))
		if (strncmp(line, key, len) == 0 && line[len] == ' ')
			return strtoull(line + len + 1, NULL, 10);
	return 0;
}

uint32_t cgset_oom_kills(const struct cgset *c)
{
	return (uint32_t)(c->v2_limits
			      ? keyed(c->v2_fd, "memory.events", "oom_kill")
			      : keyed(c->v1_fd[CG_V1_MEMORY], "memory.oom_control", "oom_kill"));
}

void cgset_usage(const struct cgset *c, struct cg_usage *ret)
{
	uint64_t v = 0;

	/* every v2 cgroup counts its processor time, also where limits are v1's */
	*ret = (struct cg_usage){.oom_kills = cgset_oom_kills(c), .cpu_us = keyed(c->v2_fd, "cpu.stat", "usage_usec")};
	if (c->v2_limits) {
		ret->pids_denied = (uint32_t)keyed(c->v2_fd, "pids.events", "max");
		if (file_get_u64(c->v2_fd, "memory.peak", &v) == 0)
			ret->memory_peak = v;
		return;
	}
	ret->pids_denied = (uint32_t)keyed(c->v1_fd[CG_V1_PIDS], "pids.events", "max");
	if (c->v1_fd[CG_V1_MEMORY] >= 0 &&
	    file_get_u64(c->v1_fd[CG_V1_MEMORY], "memory.max_usage_in_bytes", &v) == 0)
		ret->memory_peak = v;
}

void cgset_now(const struct cgset *c, struct runner_now *ret)
{
	int mem = c->v2_limits ? c->v2_fd : c->v1_fd[CG_V1_MEMORY];
	int pids = c->v2_limits ? c->v2_fd : c->v1_fd[CG_V1_PIDS];

	*ret = (struct runner_now){.cpu_us = keyed(c->v2_fd, "cpu.stat", "usage_usec")};
	if (mem >= 0)
		(void)file_get_u64(mem, c->v2_limits ? "memory.current" : "memory.usage_in_bytes",
				   &ret->memory);
	if (pids >= 0)
		(void)file_get_u64(pids, "pids.current", &ret->pids);
	ret->cache = keyed(mem, "memory.stat", c->v2_limits ? "file" : "cache");
}

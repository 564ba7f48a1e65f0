#include "base/num.h"
#include "spawn/cgroup_priv.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* Setting a sandbox's limits; cgroup_limits.c reads them back. */

struct limit_file {
	const char *file;
	char value[40];
	uint32_t bit; /* what is missing when the file is */
};

static void enable_controllers(const char *base)
{
	static const char *const below[] = {"", "/brig", "/brig/local"};
	static const char *const ctl[] = {"+memory", "+pids", "+cpu"};
	char path[512];

	if (cg_holds_processes(base))
		return;
	for (size_t i = 0; i < ARRAY_LEN(below); i++) {
		(void)snprintf(path, sizeof(path), "%s%s/cgroup.subtree_control", base, below[i]);
		/* one at a time: a controller the host keeps back must not cost the others */
		for (size_t k = 0; k < ARRAY_LEN(ctl); k++)
			(void)file_put(AT_FDCWD, path, ctl[k]);
	}
}

static uint32_t v2_want(const struct spec *s, struct limit_file out[4])
{
	uint32_t n = 0;

	if (s->memory > 0) {
		out[n] = (struct limit_file){.file = "memory.max", .bit = CG_NO_MEMORY};
		(void)snprintf(out[n++].value, sizeof(out->value), "%llu",
			       (unsigned long long)s->memory);
		out[n++] = (struct limit_file){.file = "memory.swap.max", .value = "0"};
	}
	if (s->pids > 0) {
		out[n] = (struct limit_file){.file = "pids.max", .bit = CG_NO_PIDS};
		(void)snprintf(out[n++].value, sizeof(out->value), "%u", s->pids);
	}
	if (s->cpu_milli > 0) {
		out[n] = (struct limit_file){.file = "cpu.max", .bit = CG_NO_CPU};
		(void)snprintf(out[n++].value, sizeof(out->value), "%llu 100000",
			       (unsigned long long)s->cpu_milli * 100);
	}
	return n;
}

int cg_apply_v2(struct cgset *c, const struct spec *spec, struct err *e)
{
	struct limit_file want[4];
	uint32_t n = v2_want(spec, want);
	bool tried = false;

	for (uint32_t i = 0; i < n; i++) {
		int r = file_put(c->v2_fd, want[i].file, want[i].value);

		if ((r == -ENOENT || r == -EACCES) && !tried) {
			enable_controllers(c->v2_base);
			tried = true;
			r = file_put(c->v2_fd, want[i].file, want[i].value);
		}
		if (r == -ENOENT)
			c->weaker |= want[i].bit; /* no swap file to forbid is no weakness */
		else if (r < 0)
			return err_set(e, ERR_INTERNAL, -r, "cgroup %s/%s: cannot set %s: %s",
				       c->v2_path, want[i].file, want[i].value, strerror(-r));
	}
	return 0;
}

static int v1_one(struct cgset *c, enum cg_v1 k, const char *file, const char *value, struct err *e)
{
	int r = file_put(c->v1_fd[k], file, value);

	if (r == 0 || (r == -ENOENT && strcmp(file, "memory.memsw.limit_in_bytes") == 0))
		return 0;
	return err_set(e, ERR_INTERNAL, -r, "cgroup %s/%s: cannot set %s: %s", c->v1_path[k], file,
		       value, strerror(-r));
}

int cg_apply_v1(struct cgset *c, enum cg_v1 k, const struct spec *s, struct err *e)
{
	char value[40];
	int r = 0;

	switch (k) {
	case CG_V1_MEMORY:
		(void)snprintf(value, sizeof(value), "%llu", (unsigned long long)s->memory);
		r = v1_one(c, k, "memory.limit_in_bytes", value, e);
		return r < 0 ? r : v1_one(c, k, "memory.memsw.limit_in_bytes", value, e);
	case CG_V1_CPU:
		(void)snprintf(value, sizeof(value), "%llu",
			       (unsigned long long)s->cpu_milli * 100);
		return v1_one(c, k, "cpu.cfs_quota_us", value, e);
	case CG_V1_PIDS:
		(void)snprintf(value, sizeof(value), "%u", s->pids);
		return v1_one(c, k, "pids.max", value, e);
	case CG_V1_COUNT:
		break;
	}
	return 0;
}

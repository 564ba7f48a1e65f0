#include "spawn/cgroup.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "sys/file.h"
#include "sys/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/*
 * Theory of operation. The usual mount points are tried instead of parsing mountinfo: it is one
 * statfs each on the start path. Folders brig/ and brig/local/ are made once per boot and stay;
 * <id> and its leaves come and go. On v2 the controllers are switched on in the parents only when
 * the first limit file turns out to be missing.
 *
 * Trust: ids and paths are ours; numbers read back from cgroup files are the kernel's.
 */

#define CG_ROOT	  "/sys/fs/cgroup"
#define CG_HYBRID CG_ROOT "/unified"

static const char *const v1_dir[CG_V1_COUNT] = {[CG_V1_MEMORY] = CG_ROOT "/memory",
						[CG_V1_CPU] = CG_ROOT "/cpu",
						[CG_V1_PIDS] = CG_ROOT "/pids"};
static const uint32_t v1_bit[CG_V1_COUNT] = {
    [CG_V1_MEMORY] = CG_NO_MEMORY, [CG_V1_CPU] = CG_NO_CPU, [CG_V1_PIDS] = CG_NO_PIDS};

static void close_fd(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

void cgset_done(struct cgset *c)
{
	close_fd(&c->v2_fd);
	close_fd(&c->leaf1_fd);
	for (int i = 0; i < CG_V1_COUNT; i++) {
		close_fd(&c->v1_fd[i]);
		close_fd(&c->v1_tasks_fd[i]);
	}
}

static const char *v2_mount(void)
{
	struct statfs s;

	if (statfs(CG_ROOT, &s) == 0 && s.f_type == CGROUP2_SUPER_MAGIC)
		return CG_ROOT;
	if (statfs(CG_HYBRID, &s) == 0 && s.f_type == CGROUP2_SUPER_MAGIC)
		return CG_HYBRID;
	return NULL;
}

/* Our own cgroup on v2, "/a/b", from the "0::" line of /proc/self/cgroup. */
static int own_v2_path(char *dst, size_t size)
{
	char text[4096], *line, *save = NULL;
	ssize_t n = file_get(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text));

	if (n < 0)
		return (int)n;
	for (line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
		if (strncmp(line, "0::", 3) != 0)
			continue;
		if (strlen(line + 3) >= size)
			return -ENAMETOOLONG;
		memcpy(dst, line + 3, strlen(line + 3) + 1);
		return 0;
	}
	return -ENOENT;
}

/*
 * Where our folders go. Root: the hierarchy's root. Ordinary user: the outermost folder on the way
 * to our own cgroup that is ours to write, below which all of it is: cloning into a child needs
 * write access to the common ancestor's cgroup.procs (cgroups(7), delegation).
 */
static int v2_base(const char *mount, char *dst, size_t size)
{
	char own[384], probe[512];
	size_t len;

	if (ids_host_root()) {
		(void)snprintf(dst, size, "%s", mount);
		return 0;
	}
	if (own_v2_path(own, sizeof(own)) < 0)
		return -ENOENT;
	len = strlen(own);
	for (size_t i = 1; i <= len; i++) {
		if (own[i] != '/' && own[i] != '\0')
			continue;
		(void)snprintf(probe, sizeof(probe), "%s%.*s/cgroup.procs", mount, (int)i, own);
		if (access(probe, W_OK) == 0) {
			(void)snprintf(dst, size, "%s%.*s", mount, (int)i, own);
			return access(dst, W_OK) == 0 ? 0 : -EACCES;
		}
	}
	return -EACCES;
}

/* mkdir that accepts an existing folder. */
static int make_dir(const char *path)
{
	return mkdir(path, 0755) == 0 || errno == EEXIST ? 0 : -errno;
}

/* Make base/brig/local/ID, with the two parents when missing. */
static int make_path(const char *base, const char *path)
{
	char parent[512];

	if (mkdir(path, 0755) == 0)
		return 0;
	if (errno != ENOENT)
		return -errno;
	(void)snprintf(parent, sizeof(parent), "%s/brig", base);
	if (make_dir(parent) < 0)
		return -errno;
	(void)snprintf(parent, sizeof(parent), "%s/brig/local", base);
	if (make_dir(parent) < 0)
		return -errno;
	return mkdir(path, 0755) == 0 ? 0 : -errno;
}

/* Hand cgroup.procs of a folder to the sandbox's root id, which clones execs into leaves. */
static int give_procs(int dir_fd, uid_t owner)
{
	if (owner == (uid_t)-1)
		return 0;
	return fchownat(dir_fd, "cgroup.procs", owner, (gid_t)-1, AT_SYMLINK_NOFOLLOW) == 0
		   ? 0
		   : -errno;
}

int cgset_leaf(struct cgset *c, uint32_t exec_id, uid_t owner, int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	char name[32];
	int r;

	if (c->v2_fd < 0)
		return -EOPNOTSUPP;
	(void)snprintf(name, sizeof(name), "exec-%u", exec_id);
	if (mkdirat(c->v2_fd, name, 0755) < 0)
		return -errno;
	fd = openat(c->v2_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = fd < 0 ? -errno : give_procs(fd, owner);
	if (r < 0) {
		(void)unlinkat(c->v2_fd, name, AT_REMOVEDIR);
		return r;
	}
	*ret_fd = steal_fd(&fd);
	return 0;
}

/* ---- limits ---- */

struct limit_file {
	const char *file;
	char value[40];
	uint32_t bit; /* what is missing when the file is */
};

/*
 * Does a folder that is not the hierarchy's root hold processes? Then memory cannot be handed down
 * from it, and handing down only cpu and pids, which the kernel allows, would make it a threaded
 * root: no process can be started below one (cgroups(7): no internal processes, thread mode).
 */
static bool holds_processes(const char *dir)
{
	char path[512], text[16];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/cgroup.type", dir);
	if (access(path, F_OK) < 0)
		return false;
	(void)snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	n = file_get(AT_FDCWD, path, text, sizeof(text));
	return n > 0 || n == -EFBIG;
}

static void enable_controllers(const char *base)
{
	static const char *const below[] = {"", "/brig", "/brig/local"};
	static const char *const ctl[] = {"+memory", "+pids", "+cpu"};
	char path[512];

	if (holds_processes(base))
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

static int v2_limits(struct cgset *c, const struct spec *spec, struct err *e)
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

static int v1_limit(struct cgset *c, enum cg_v1 k, const struct spec *s, struct err *e)
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

static bool v1_wanted(enum cg_v1 k, const struct spec *s)
{
	return (k == CG_V1_MEMORY && s->memory > 0) || (k == CG_V1_CPU && s->cpu_milli > 0) ||
	       (k == CG_V1_PIDS && s->pids > 0);
}

void cgset_plan(struct cgset *c, const struct spec *spec)
{
	const char *mount = v2_mount();

	*c = (struct cgset){.v2_fd = -1, .leaf1_fd = -1};
	for (enum cg_v1 k = 0; k < CG_V1_COUNT; k++)
		c->v1_fd[k] = c->v1_tasks_fd[k] = -1;
	if (mount != NULL && v2_base(mount, c->v2_base, sizeof(c->v2_base)) == 0)
		(void)snprintf(c->v2_path, sizeof(c->v2_path), "%s/brig/local/%s", c->v2_base,
			       spec->id);
	else
		c->v2_base[0] = '\0';
	c->v2_limits = mount != NULL && strcmp(mount, CG_ROOT) == 0;
	for (enum cg_v1 k = 0; k < CG_V1_COUNT; k++)
		if (!c->v2_limits && v1_wanted(k, spec))
			(void)snprintf(c->v1_path[k], sizeof(c->v1_path[k]), "%s/brig/local/%s",
				       v1_dir[k], spec->id);
}

uint32_t cgset_paths(const struct cgset *c, const char *ret[CGSET_PATHS_MAX])
{
	uint32_t n = 0;

	if (c->v2_path[0] != '\0')
		ret[n++] = c->v2_path;
	for (int k = 0; k < CG_V1_COUNT; k++)
		if (c->v1_path[k][0] != '\0')
			ret[n++] = c->v1_path[k];
	return n;
}

/* Errors that mean: the host keeps this hierarchy from us. */
static bool not_ours(int r) { return r == -ENOENT || r == -EACCES || r == -EROFS || r == -EPERM; }

static int v1_make(struct cgset *c, enum cg_v1 k, const struct spec *spec, struct err *e)
{
	int r = make_path(v1_dir[k], c->v1_path[k]);

	if (r < 0) {
		c->v1_path[k][0] = '\0';
		c->weaker |= v1_bit[k];
		return not_ours(r)
			   ? 0
			   : err_set(e, ERR_INTERNAL, -r, "cannot make a cgroup below %s: %s",
				     v1_dir[k], strerror(-r));
	}
	c->v1_fd[k] = open(c->v1_path[k], O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (c->v1_fd[k] < 0)
		return err_set(e, ERR_INTERNAL, errno, "cgroup %s: %s", c->v1_path[k],
			       strerror(errno));
	r = v1_limit(c, k, spec, e);
	if (r < 0)
		return r;
	c->v1_tasks_fd[k] = openat(c->v1_fd[k], "tasks", O_WRONLY | O_CLOEXEC);
	if (c->v1_tasks_fd[k] < 0)
		return err_set(e, ERR_INTERNAL, errno, "cgroup %s/tasks: %s", c->v1_path[k],
			       strerror(errno));
	return 0;
}

static int v2_make(struct cgset *c, uid_t owner, struct err *e)
{
	int r = c->v2_path[0] == '\0' ? -ENOENT : make_path(c->v2_base, c->v2_path);

	if (r < 0) {
		c->v2_path[0] = '\0';
		c->weaker |= CG_NO_KILL;
		return not_ours(r)
			   ? 0
			   : err_set(e, ERR_INTERNAL, -r, "cannot make a cgroup below %s: %s",
				     c->v2_base, strerror(-r));
	}
	c->v2_fd = open(c->v2_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (c->v2_fd < 0)
		return err_set(e, ERR_INTERNAL, errno, "cgroup %s: %s", c->v2_path,
			       strerror(errno));
	if (faccessat(c->v2_fd, "cgroup.kill", F_OK, 0) < 0)
		c->weaker |= CG_NO_KILL;
	r = give_procs(c->v2_fd, owner);
	if (r == 0)
		r = cgset_leaf(c, 1, owner, &c->leaf1_fd);
	return r < 0 ? err_set(e, ERR_INTERNAL, -r, "cgroup %s: %s", c->v2_path, strerror(-r)) : 0;
}

int cgset_make(struct cgset *c, const struct spec *spec, uid_t owner, struct err *e)
{
	int r = v2_make(c, owner, e);

	if (r < 0)
		return r;
	if (c->v2_limits && c->v2_fd >= 0)
		return v2_limits(c, spec, e);
	if (c->v2_limits) {
		/* v2 only, and none of it is ours */
		c->v2_limits = false;
		c->weaker |= CG_NO_MEMORY | CG_NO_CPU | CG_NO_PIDS;
		return 0;
	}
	for (enum cg_v1 k = 0; k < CG_V1_COUNT; k++) {
		r = c->v1_path[k][0] != '\0' ? v1_make(c, k, spec, e) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- kill, freeze ---- */

int cgset_kill(struct cgset *c)
{
	return c->v2_fd < 0 ? -EOPNOTSUPP : file_put(c->v2_fd, "cgroup.kill", "1");
}

int cgset_freeze(struct cgset *c, bool on)
{
	return c->v2_fd < 0 ? -EOPNOTSUPP : file_put(c->v2_fd, "cgroup.freeze", on ? "1" : "0");
}

/* ---- accounting ---- */

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

/* ---- what the host offers ---- */

static uint32_t v2_missing_at(const char *base)
{
	char path[512], text[512] = " ", padded[520];
	uint32_t missing = 0;
	ssize_t n;

	if (holds_processes(base))
		return CG_NO_MEMORY | CG_NO_CPU | CG_NO_PIDS;
	(void)snprintf(path, sizeof(path), "%s/cgroup.controllers", base);
	n = file_get(AT_FDCWD, path, text, sizeof(text));
	if (n > 0 && text[n - 1] == '\n')
		text[n - 1] = '\0';
	(void)snprintf(padded, sizeof(padded), " %s ", n > 0 ? text : "");
	if (strstr(padded, " memory ") == NULL)
		missing |= CG_NO_MEMORY;
	if (strstr(padded, " cpu ") == NULL)
		missing |= CG_NO_CPU;
	if (strstr(padded, " pids ") == NULL)
		missing |= CG_NO_PIDS;
	return missing;
}

void cg_host_probe(struct cg_host *ret)
{
	char path[512];
	const char *mount = v2_mount();

	*ret = (struct cg_host){.v2_missing = CG_NO_MEMORY | CG_NO_CPU | CG_NO_PIDS};
	if (mount != NULL) {
		ret->v2 = true;
		ret->v2_writable = v2_base(mount, ret->base, sizeof(ret->base)) == 0 &&
				   access(ret->base, W_OK) == 0;
		if (ret->v2_writable)
			ret->v2_missing = v2_missing_at(ret->base);
		/* the root of a hierarchy has no cgroup.kill: look at any child, else trust the
		 * kernel's age */
		(void)snprintf(path, sizeof(path), "%s/brig/cgroup.kill", ret->base);
		if (ret->v2_writable) {
			char dir[512];

			(void)snprintf(dir, sizeof(dir), "%s/brig", ret->base);
			(void)make_dir(dir);
		}
		ret->v2_kill = ret->v2_writable && access(path, F_OK) == 0;
	}
	for (int k = 0; k < CG_V1_COUNT; k++)
		if (access(v1_dir[k], W_OK) < 0)
			ret->v1_missing |= v1_bit[k];
}

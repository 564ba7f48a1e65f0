#include "base/cleanup.h"
#include "spawn/cgroup_priv.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Theory of operation. Folders brig/ and brig/local/ are made once per boot and stay;
 * <id> and its leaves come and go. On v2 the controllers are switched on in the parents only when
 * the first limit file turns out to be missing (cgroup_apply.c).
 *
 * Trust: ids and paths are ours; numbers read back from cgroup files are the kernel's.
 */

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

/* Make base/brig/local/ID, with the two parents when missing. */
static int make_path(const char *base, const char *path)
{
	char parent[512];

	if (mkdir(path, 0755) == 0)
		return 0;
	if (errno != ENOENT)
		return -errno;
	(void)snprintf(parent, sizeof(parent), "%s/brig", base);
	if (cg_make_dir(parent) < 0)
		return -errno;
	(void)snprintf(parent, sizeof(parent), "%s/brig/local", base);
	if (cg_make_dir(parent) < 0)
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

static bool v1_wanted(enum cg_v1 k, const struct spec *s)
{
	return (k == CG_V1_MEMORY && s->memory > 0) || (k == CG_V1_CPU && s->cpu_milli > 0) ||
	       (k == CG_V1_PIDS && s->pids > 0);
}

void cgset_plan(struct cgset *c, const struct spec *spec)
{
	const char *mount = cg_v2_mount();

	*c = (struct cgset){.v2_fd = -1, .leaf1_fd = -1};
	for (enum cg_v1 k = 0; k < CG_V1_COUNT; k++)
		c->v1_fd[k] = c->v1_tasks_fd[k] = -1;
	if (mount != NULL && cg_v2_base(mount, c->v2_base, sizeof(c->v2_base)) == 0)
		(void)snprintf(c->v2_path, sizeof(c->v2_path), "%s/brig/local/%s", c->v2_base,
			       spec->id);
	else
		c->v2_base[0] = '\0';
	c->v2_limits = mount != NULL && strcmp(mount, CG_ROOT) == 0;
	for (enum cg_v1 k = 0; k < CG_V1_COUNT; k++)
		if (!c->v2_limits && v1_wanted(k, spec))
			(void)snprintf(c->v1_path[k], sizeof(c->v1_path[k]), "%s/brig/local/%s",
				       cg_v1_dir[k], spec->id);
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
	int r = make_path(cg_v1_dir[k], c->v1_path[k]);

	if (r < 0) {
		c->v1_path[k][0] = '\0';
		c->weaker |= cg_v1_bit[k];
		return not_ours(r)
			   ? 0
			   : err_set(e, ERR_INTERNAL, -r, "cannot make a cgroup below %s: %s",
				     cg_v1_dir[k], strerror(-r));
	}
	c->v1_fd[k] = open(c->v1_path[k], O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (c->v1_fd[k] < 0)
		return err_set(e, ERR_INTERNAL, errno, "cgroup %s: %s", c->v1_path[k],
			       strerror(errno));
	r = cg_apply_v1(c, k, spec, e);
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
		return cg_apply_v2(c, spec, e);
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

int cgset_kill(struct cgset *c)
{
	return c->v2_fd < 0 ? -EOPNOTSUPP : file_put(c->v2_fd, "cgroup.kill", "1");
}

int cgset_freeze(struct cgset *c, bool on)
{
	return c->v2_fd < 0 ? -EOPNOTSUPP : file_put(c->v2_fd, "cgroup.freeze", on ? "1" : "0");
}

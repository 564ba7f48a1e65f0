#include "base/cleanup.h"
#include "base/num.h"
#include "sys/call.h"
#include "sys/file.h"
#include "tier/container/setup_priv.h"
#include "tier/container/start_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * The host's half of a start: one clone3 into all namespaces (and the cgroup), then what only the
 * outside can do for the child: write its id maps and hand it the image's mounts, shifted to its ids.
 *
 *   host                                  child
 *   plan, open_tree of each part          -
 *   clone3                                joins v1 cgroups, loopback, host name
 *   id maps, one byte                     waits, becomes uid 0 inside
 *   mount_setattr(IDMAP), one byte        waits, builds the root, devices, /proc, pivots, jail
 *   reads the status pipe (confirm)       execve of brig-init closes it
 *
 * An ordinary user's child does the middle part itself. Both sides are still ours here.
 */

static const uint64_t clone_flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWNET |
				    CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_PIDFD;

static int open_parts(struct image_plan *plan, struct err *e)
{
	for (uint32_t i = 0; i < plan->parts; i++) {
		int r = image_open_part(&plan->part[i]);

		if (r < 0 && r != -ENOENT)
			return err_set(e, ERR_UNSUPPORTED, -r, "image: cannot bind '%s': %s (Linux >= 5.12 is needed)",
				       plan->part[i].src, strerror(-r));
	}
	return 0;
}

static void close_parts(struct image_plan *plan)
{
	for (uint32_t i = 0; i < plan->parts; i++)
		if (plan->part[i].fd >= 0)
			(void)close(plan->part[i].fd);
}

/* "inside outside count" for both maps, written by the privileged runner. */
static int write_maps(pid_t pid, uint32_t base, uint32_t count, struct err *e)
{
	char path[64], line[64];
	int r;

	(void)snprintf(line, sizeof(line), "0 %u %u", base, count);
	(void)snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	r = file_put(AT_FDCWD, path, line);
	if (r == 0) {
		(void)snprintf(path, sizeof(path), "/proc/%d/gid_map", pid);
		r = file_put(AT_FDCWD, path, line);
	}
	return r < 0 ? err_set(e, ERR_INTERNAL, -r, "mapping user ids %u+%u: %s", base, count, strerror(-r)) : 0;
}

/*
 * Ordinary user with subordinate ids: newuidmap(1) and newgidmap(1) map the caller to the image's
 * default user, and everybody else to the subordinate range.
 */
static int run_idmap_tool(const char *tool, pid_t pid, uint32_t self_in, uint32_t self_out, uint32_t sub,
			  struct err *e)
{
	char arg[10][16];
	char name[16];
	char *argv[12] = {name};
	char *envp[] = {NULL};
	char path[64];
	uint32_t v[9] = {0, sub, self_in, self_in, self_out, 1, self_in + 1, sub + self_in, 65535 - self_in};
	int n = 1, status = 0;
	pid_t child;

	(void)snprintf(name, sizeof(name), "%s", tool);
	(void)snprintf(path, sizeof(path), "/usr/bin/%s", tool);
	(void)snprintf(arg[0], sizeof(arg[0]), "%d", pid);
	argv[n++] = arg[0];
	for (int i = self_in == 0 ? 3 : 0; i < 9; i++) {
		(void)snprintf(arg[i + 1], sizeof(arg[0]), "%u", v[i]);
		argv[n++] = arg[i + 1];
	}
	argv[n] = NULL;
	child = fork();
	if (child == 0) {
		(void)execve(path, argv, envp);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return err_set(e, ERR_INTERNAL, errno, "starting %s: %s", tool, strerror(errno));
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_set(e, ERR_UNSUPPORTED, EPERM,
			       "%s could not map the subordinate ids (package uidmap; see subuid(5))", tool);
	return 0;
}

static int give_maps(const struct setup *s, pid_t pid, struct err *e)
{
	const struct tier_res *res = s->res;
	int r;

	if (geteuid() == 0)
		return write_maps(pid, res->id_base, res->id_count, e);
	r = run_idmap_tool("newuidmap", pid, s->plan->uid, res->cap_uid, res->sub_uid, e);
	return r < 0 ? r : run_idmap_tool("newgidmap", pid, s->plan->gid, res->cap_gid, res->sub_gid, e);
}

/* Shift the image's mounts to the child's ids. Returns false where the file system cannot. */
static bool idmap_parts(struct image_plan *plan, pid_t pid)
{
	_cleanup_close_ int ns_fd = -1;
	char path[64];
	bool all = true;

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	ns_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (ns_fd < 0)
		return false;
	for (uint32_t i = 0; i < plan->parts; i++) {
		struct image_part *p = &plan->part[i];

		if (p->fd >= 0 && strncmp(p->dst, "sys/", 4) != 0 &&
		    sys_mount_setattr(p->fd, 0, MOUNT_ATTR_IDMAP, 0, ns_fd) < 0)
			all = false;
	}
	return all;
}

/* Wait for execve (end of file) or the child's error. */
int container_confirm(const struct tier_box *box, struct err *e)
{
	struct setup_error se;
	int fd = box->status_fd;
	ssize_t n;

	do
		n = read(fd, &se, sizeof(se));
	while (n < 0 && errno == EINTR);
	if (n == 0)
		return 0;
	if (n != (ssize_t)sizeof(se))
		return err_set(e, ERR_INTERNAL, EIO, "the sandbox's first process died while it was set up");
	se.text[sizeof(se.text) - 1] = '\0';
	return err_set(e, ERR_UNSUPPORTED, se.errnum, "%s: %s", se.text, strerror(se.errnum));
}

/* What the host side does for a living child. One that is gone meanwhile shows in its status. */
static int serve_child(struct setup *s, pid_t pid, int sync_fd, uint32_t *weaker, struct err *e)
{
	int r = 0;

	if (!s->map_self) {
		r = give_maps(s, pid, e);
		if (r < 0)
			return r;
		(void)!send(sync_fd, "m", 1, MSG_NOSIGNAL);
	}
	if (!s->map_self && geteuid() == 0) {
		if (!idmap_parts(s->plan, pid)) {
			*weaker |= TIER_NO_IDMAP;
			if ((s->spec->require & REQ_NEED_IDMAP) != 0)
				return err_set(e, ERR_UNSUPPORTED, ENOTSUP,
					       "--require idmap: the image's file system has no idmapped mounts");
		}
	}
	if (!s->map_self)
		(void)!send(sync_fd, "p", 1, MSG_NOSIGNAL);
	return 0;
}

int container_start(const struct spec *spec, const struct tier_res *res, struct tier_box *ret, struct err *e)
{
	struct image_plan plan = {.parts = 0};
	struct setup s = {.spec = spec, .res = res, .plan = &plan, .sync_fd = -1, .status_fd = -1, .init_fd = -1};
	struct clone_args args = {.flags = clone_flags, .exit_signal = SIGCHLD};
	int sync[2] = {-1, -1}, status[2] = {-1, -1}, pidfd = -1, r;
	pid_t pid = -1;

	s.single_id = res->id_count == 1;
	s.map_self = s.single_id && geteuid() != 0;
	ret->weaker = landlock_abi() < 2 ? TIER_NO_LANDLOCK : 0;
	if (s.map_self || geteuid() != 0)
		ret->weaker |= TIER_NO_IDMAP;
	r = image_plan(spec, &plan, e);
	if (r == 0 && geteuid() == 0)
		r = open_parts(&plan, e);
	if (r < 0)
		goto out;
	if (res->leaf_path != NULL)
		(void)snprintf(s.leaf_path, sizeof(s.leaf_path), "%s", res->leaf_path);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sync) < 0 || pipe2(status, O_CLOEXEC) < 0) {
		r = err_set(e, ERR_INTERNAL, errno, "socketpair: %s", strerror(errno));
		goto out;
	}
	s.sync_fd = sync[1];
	s.status_fd = status[1];
	args.pidfd = (uint64_t)(uintptr_t)&pidfd;
	if (res->leaf_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (unsigned)res->leaf_fd;
	}
	pid = sys_clone3(&args);
	if (pid == 0) {
		(void)close(sync[0]);
		(void)close(status[0]);
		setup_child(&s);
	}
	if (pid < 0) {
		r = err_set(e, ERR_UNSUPPORTED, -pid,
			    "cannot make the namespaces: %s (run 'brig check' to see what this host lacks)",
			    strerror(-pid));
		goto out;
	}
	(void)close(sync[1]);
	(void)close(status[1]);
	sync[1] = status[1] = -1;
	r = serve_child(&s, pid, sync[0], &ret->weaker, e);
	if (r < 0) {
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
		(void)close(pidfd);
		goto out;
	}
	ret->root_pid = pid;
	ret->root_pidfd = pidfd;
	ret->status_fd = status[0];
	status[0] = -1;
out:
	close_parts(&plan);
	for (int i = 0; i < 2; i++) {
		if (sync[i] >= 0)
			(void)close(sync[i]);
		if (status[i] >= 0)
			(void)close(status[i]);
	}
	return r;
}

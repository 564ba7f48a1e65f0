#include "base/cleanup.h"
#include "base/num.h"
#include "sys/call.h"
#include "sys/clone.h"
#include "sys/file.h"
#include "tier/container/setup_priv.h"
#include "tier/container/start_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * The host's half of a start.
 *
 *   parent                         runner                      set-up child
 *   prepare: plan, mounts          (forked after prepare)
 *   start: clone3, then stopped    serve: reads the pid        joins v1 cgroups, loopback, host name, sends its pid
 *                                  id maps, one byte           waits, becomes uid 0 inside
 *                                  IDMAP of the mounts, byte   waits, builds the root, devices, /proc, pivots, jail
 *   goes on                                                    execve of brig-init, or why not
 *
 * The child borrows the parent's memory (CLONE_VM, CLONE_VFORK): copying page tables, and the pages
 * both write afterwards, was a fifth of a start. An ordinary user's child does the middle part itself.
 * All three are still ours here.
 */

static const uint64_t clone_flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWNET |
				    CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_PIDFD | CLONE_PARENT_SETTID | CLONE_VM |
				    CLONE_VFORK;

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

static int give_maps(const struct tier_start *s, pid_t pid, struct err *e)
{
	const struct tier_res *res = s->res;
	int r;

	if (geteuid() == 0)
		return write_maps(pid, res->id_base, res->id_count, e);
	r = run_idmap_tool("newuidmap", pid, s->plan.uid, res->cap_uid, res->sub_uid, e);
	return r < 0 ? r : run_idmap_tool("newgidmap", pid, s->plan.gid, res->cap_gid, res->sub_gid, e);
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

int container_prepare(const struct spec *spec, const struct tier_res *res, struct tier_start **ret, struct err *e)
{
	struct tier_start *s = malloc(sizeof(*s));
	int r;

	if (s == NULL)
		return err_set(e, ERR_INTERNAL, ENOMEM, "out of memory");
	*s = (struct tier_start){.spec = spec, .res = res, .sync = {-1, -1}, .init_fd = -1};
	s->single_id = res->id_count == 1;
	s->map_self = s->single_id && geteuid() != 0;
	s->own_parts = geteuid() == 0;
	r = image_plan(spec, &s->plan, e);
	if (r == 0 && s->own_parts)
		r = open_parts(&s->plan, e);
	if (r == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s->sync) < 0)
		r = err_set(e, ERR_INTERNAL, errno, "socketpair: %s", strerror(errno));
	if (r < 0) {
		container_release(s);
		return r;
	}
	*ret = s;
	return 0;
}

void container_release(struct tier_start *s)
{
	if (s == NULL)
		return;
	if (s->own_parts)
		close_parts(&s->plan);
	for (int i = 0; i < 2; i++)
		if (s->sync[i] >= 0)
			(void)close(s->sync[i]);
	free(s);
}

/* The child runs on the upper end of `stack`, below which nothing of the stopped parent lies. */
static pid_t clone_child(struct tier_start *s, int *ret_pidfd)
{
	__attribute__((aligned(16))) char stack[24 * 1024];
	struct clone_args args = {.flags = clone_flags,
				  .exit_signal = SIGCHLD,
				  .pidfd = (uint64_t)(uintptr_t)ret_pidfd,
				  .parent_tid = (uint64_t)(uintptr_t)&s->outer_pid,
				  .stack = (uint64_t)(uintptr_t)stack,
				  .stack_size = sizeof(stack)};

	if (s->res->leaf_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (unsigned)s->res->leaf_fd;
	}
	return sys_clone3_call(&args, setup_child, &s);
}

int container_start(struct tier_start *s, struct tier_box *ret, struct err *e)
{
	_cleanup_close_ int pidfd = -1;
	struct pollfd p = {.events = POLLIN};
	pid_t pid = clone_child(s, &pidfd);

	if (pid < 0)
		return err_set(e, ERR_UNSUPPORTED, -pid,
			       "cannot make the namespaces: %s (run 'brig check' to see what this host lacks)",
			       strerror(-pid));
	p.fd = pidfd;
	if (s->failed != 0 || poll(&p, 1, 0) != 0) {
		(void)kill(pid, SIGKILL);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		if (s->failed == 0)
			return err_set(e, ERR_LOST, EIO, "the sandbox's first process died while it was set up");
		return err_set(e, ERR_UNSUPPORTED, s->failed, "%s: %s", s->why, strerror(s->failed));
	}
	ret->root_pid = pid;
	ret->root_pidfd = steal_fd(&pidfd);
	return 0;
}

int container_serve(struct tier_start *s, struct tier_box *ret, struct err *e)
{
	int32_t pid = -1;
	int r;

	(void)close(steal_fd(&s->sync[1]));
	ret->weaker = landlock_abi() < 2 ? TIER_NO_LANDLOCK : 0;
	if (geteuid() != 0)
		ret->weaker |= TIER_NO_IDMAP;
	if (read(s->sync[0], &pid, sizeof(pid)) != (ssize_t)sizeof(pid))
		return err_set(e, ERR_LOST, EIO, "the sandbox's first process did not come up");
	ret->root_pid = pid;
	ret->root_pidfd = sys_pidfd_open(pid);
	if (ret->root_pidfd < 0)
		return err_set(e, ERR_LOST, ESRCH, "the sandbox's first process did not stay up");
	if (s->map_self)
		return 0;
	r = give_maps(s, pid, e);
	if (r < 0)
		return r;
	(void)!send(s->sync[0], "m", 1, MSG_NOSIGNAL);
	if (s->own_parts && !idmap_parts(&s->plan, pid)) {
		ret->weaker |= TIER_NO_IDMAP;
		if ((s->spec->require & REQ_NEED_IDMAP) != 0)
			return err_set(e, ERR_UNSUPPORTED, ENOTSUP,
				       "--require idmap: the image's file system has no idmapped mounts");
	}
	(void)!send(s->sync[0], "p", 1, MSG_NOSIGNAL);
	return 0;
}

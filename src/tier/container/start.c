#include "base/cleanup.h"
#include "base/num.h"
#include "sys/call.h"
#include "sys/clone.h"
#include "sys/ids.h"
#include "sys/landlock.h"
#include "sys/pages.h"
#include "sys/raw.h"
#include "tier/container/setup_priv.h"
#include "tier/container/start_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
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
 *   parent                                set-up child
 *   plan, mounts of the image             -
 *   clone3                                joins v1 cgroups, loopback, host name
 *   id maps, one byte                     makes the gate's sockets and hands them out (if asked)
 *   mount_setattr(IDMAP), one byte        waits, becomes uid 0 inside
 *   rules that lead to the sockets        builds the root, devices, /proc, pivots, jail
 *   waits for the end of the socket       execve of brig-init, or exit with the reason left behind
 *
 * The child uses the parent's memory (CLONE_VM): copying page tables, and the pages both write
 * afterwards, was a fifth of a start. So while it lives there the parent makes no library call that
 * writes memory they share, errno above all: between clone and the end of the socket only raw
 * calls. An ordinary user's child does the middle part itself. Both sides are still ours here.
 */

static const uint64_t clone_flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC |
				    CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_PIDFD |
				    CLONE_VM;

static int open_parts(struct image_plan *plan, struct err *e)
{
	for (uint32_t i = 0; i < plan->parts; i++) {
		int r = image_open_part(&plan->part[i]);

		if (r < 0 && r != -ENOENT)
			return err_set(e, ERR_UNSUPPORTED, -r,
				       "image: cannot bind '%s': %s (Linux >= 5.12 is needed)",
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

/* ---- while the child shares our memory: raw calls only ---- */

static int raw_put(const char *path, const char *text, size_t n)
{
	int fd = raw_open(path, O_WRONLY);
	long r;

	if (fd < 0)
		return fd;
	r = raw_write(fd, text, n);
	raw_close(fd);
	return r < 0 ? (int)r : 0;
}

/* What serving a child takes; texts are made before it is born but for its pid, filled in by hand.
 */
struct serving {
	char map[32]; /* "inside outside count" for both maps */
	size_t map_len;
	char path[32]; /* "/proc/PID/" and room for a name */
	size_t path_len;
	bool no_idmap; /* a file system that cannot shift ids */
};

static char *proc_of(struct serving *v, const char *name)
{
	size_t i = v->path_len;

	while (*name != '\0')
		v->path[i++] = *name++;
	v->path[i] = '\0';
	return v->path;
}

static void set_pid(struct serving *v, pid_t pid)
{
	char digits[12];
	size_t n = 0, i = 6;

	v->path[0] = '/', v->path[1] = 'p', v->path[2] = 'r', v->path[3] = 'o', v->path[4] = 'c',
	v->path[5] = '/';
	for (; pid > 0; pid /= 10)
		digits[n++] = (char)('0' + pid % 10);
	while (n > 0)
		v->path[i++] = digits[--n];
	v->path[i++] = '/';
	v->path_len = i;
}

/* Shift the image's mounts to the child's ids. */
static void idmap_parts(struct image_plan *plan, struct serving *v)
{
	int ns_fd = raw_open(proc_of(v, "ns/user"), O_RDONLY);

	v->no_idmap = ns_fd < 0;
	for (uint32_t i = 0; i < plan->parts && ns_fd >= 0; i++) {
		struct image_part *p = &plan->part[i];
		struct mount_attr a = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (unsigned)ns_fd};

		if (p->fd >= 0 && p->shifts &&
		    raw_call(SYS_mount_setattr, p->fd, (long)"", AT_EMPTY_PATH, (long)&a,
			     sizeof(a)) < 0)
			v->no_idmap = true;
	}
	if (ns_fd >= 0)
		raw_close(ns_fd);
}

/* As root: maps, mounts. 0 or -errno; the child gives up when the socket ends before its bytes
 * came. */
static int serve_root(struct tier_start *s, struct serving *v)
{
	int r = raw_put(proc_of(v, "uid_map"), v->map, v->map_len);

	if (r == 0)
		r = raw_put(proc_of(v, "gid_map"), v->map, v->map_len);
	if (r < 0)
		return r;
	(void)raw_send(s->sync[0], "m", 1);
	idmap_parts(&s->plan, v);
	if (v->no_idmap && (s->spec->require & REQ_NEED_IDMAP) != 0)
		return -ENOTSUP;
	(void)raw_send(s->sync[0], "p", 1);
	return 0;
}

/* ---- the rest ---- */

/*
 * Ordinary user with subordinate ids: newuidmap(1) and newgidmap(1) map the caller to the image's
 * default user, and everybody else to the subordinate range.
 */
static int run_idmap_tool(const char *tool, pid_t pid, uint32_t self_in, uint32_t self_out,
			  uint32_t sub, struct err *e)
{
	char arg[10][16];
	char name[16];
	char *argv[12] = {name};
	char *envp[] = {NULL};
	char path[64];
	uint32_t v[9] = {0, sub,	 self_in,	self_in,	self_out,
			 1, self_in + 1, sub + self_in, 65535 - self_in};
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
		return err_set(
		    e, ERR_UNSUPPORTED, EPERM,
		    "%s could not map the subordinate ids (package uidmap; see subuid(5))", tool);
	return 0;
}

/* The child of a user with subordinate ids has a memory of its own: tools have to be run for it. */
static int serve_subids(struct tier_start *s, pid_t pid, struct err *e)
{
	int r = run_idmap_tool("newuidmap", pid, s->plan.default_uid, s->res->cap_uid,
			       s->res->sub_uid, e);

	if (r == 0)
		r = run_idmap_tool("newgidmap", pid, s->plan.default_gid, s->res->cap_gid,
				   s->res->sub_gid, e);
	if (r == 0)
		(void)!send(s->sync[0], "mp", 2, MSG_NOSIGNAL);
	return r;
}

/* ... and says over the socket why it gave up, if it does. */
static void hear_failure(struct tier_start *s)
{
	ssize_t n;

	do
		n = recv(s->sync[0], &s->failure, sizeof(s->failure), MSG_WAITALL);
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof(s->failure))
		s->failure.errnum = 0;
	s->failure.why[sizeof(s->failure.why) - 1] = '\0';
}

static int prepare(struct tier_start *s, struct err *e)
{
	int r;

	s->single_id = s->res->id_count == 1;
	s->map_self = s->single_id;
	s->own_parts = ids_host_root();
	s->shared = s->map_self || s->own_parts;
	r = image_plan(s->spec, &s->plan, e);
	if (r == 0 && s->res->sudo_path != NULL && image_show(&s->plan, s->res->sudo_path, SUDO_PART) < 0)
		r = err_set(e, ERR_INTERNAL, E2BIG, "image: no room for '%s'", s->res->sudo_path);
	if (r == 0 && s->own_parts)
		r = open_parts(&s->plan, e);
	if (r == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s->sync) < 0)
		r = err_set(e, ERR_INTERNAL, errno, "socketpair: %s", strerror(errno));
	return r;
}

static void release(struct tier_start *s)
{
	if (s->own_parts)
		close_parts(&s->plan);
	for (int i = 0; i < 2; i++)
		if (s->sync[i] >= 0)
			(void)close(s->sync[i]);
}

/*
 * Bring the child up to its execve, on a stack of its own. Returns its pid, or -errno when there is
 * none; *ret_served is what became of serving it.
 */
/* NOLINTNEXTLINE(readability-non-const-parameter): the kernel writes *ret_pidfd */
static pid_t bring_up(struct tier_start *s, struct serving *v, int *ret_pidfd, int *ret_served,
		      struct err *e)
{
	enum { USUAL = 8192 }; /* of the stack */
	static __attribute__((aligned(16))) char stack[24 * 1024];
	struct clone_args args = {.flags = clone_flags,
				  .exit_signal = SIGCHLD,
				  .pidfd = (uint64_t)(uintptr_t)ret_pidfd,
				  .stack = (uint64_t)(uintptr_t)stack,
				  .stack_size = sizeof(stack)};
	char byte;
	pid_t pid;

	pages_make(stack + sizeof(stack) - USUAL, USUAL);
	if (!s->shared)
		args.flags &= ~(uint64_t)CLONE_VM;
	if (s->res->leaf_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (unsigned)s->res->leaf_fd;
	}
	pid = sys_clone3_call(&args, setup_child, &s);
	raw_close(s->sync[1]); /* the child has its own; the number is the child's to read until it
				  is gone */
	if (pid < 0) {
		s->sync[1] = -1;
		return pid;
	}
	if (!s->shared)
		*ret_served = serve_subids(s, pid, e);
	if (s->shared && !s->map_self) {
		set_pid(v, pid);
		*ret_served = serve_root(s, v);
	}
	if (*ret_served < 0)
		(void)raw_call(SYS_kill, pid, SIGKILL, 0, 0, 0);
	/* the first it sends; without them it died or says over the socket why it gave up */
	s->has_net = s->res->net != NULL && net_take(s->sync[0], &s->net) == 0;
	s->net_err = s->has_net ? net_load(s->res->net, &s->net, &s->net_why) : 0;
	if (s->net_err < 0)
		(void)raw_call(SYS_kill, pid, SIGKILL, 0, 0, 0);
	/* its end of the socket closes by execve, or by its death */
	if (!s->shared)
		hear_failure(s);
	while (s->shared && raw_read(s->sync[0], &byte, 1) == -EINTR)
		;
	s->sync[1] = -1;
	return pid;
}

static int explain(const struct tier_start *s, const struct serving *v, int served, struct err *e)
{
	if (e != NULL && e->kind != ERR_NONE)
		return -e->errnum; /* said already */
	if (served < 0 && v->no_idmap)
		return err_set(e, ERR_UNSUPPORTED, -served,
			       "--require idmap: the image's file system has no idmapped mounts");
	if (served < 0)
		return err_set(e, ERR_INTERNAL, -served, "mapping user ids %s: %s", v->map,
			       strerror(-served));
	if (s->net_err < 0)
		return err_set(e, ERR_UNSUPPORTED, -s->net_err, "%s: %s", s->net_why, strerror(-s->net_err));
	if (s->failure.errnum == 0)
		return err_set(e, ERR_LOST, EIO,
			       "the sandbox's first process died while it was set up");
	return err_set(e, ERR_UNSUPPORTED, s->failure.errnum, "%s: %s", s->failure.why,
		       strerror(s->failure.errnum));
}

int container_start(const struct spec *spec, const struct tier_res *res, struct tier_box *ret,
		    struct err *e)
{
	static struct tier_start
	    start; /* one at a time; not on the stack nor the heap: see image_plan */
	struct tier_start *s = &start;
	struct serving v = {.no_idmap = !ids_host_root()};
	_cleanup_close_ int pidfd = -1;
	struct pollfd p = {.events = POLLIN};
	int served = 0, r;
	pid_t pid;

	pages_make(s, sizeof(*s));
	s->spec = spec;
	s->res = res;
	s->sync[0] = s->sync[1] = s->init_fd = -1;
	s->failure.errnum = 0;
	s->has_net = false;
	s->net_err = 0;
	s->plan.parts = 0;
	r = prepare(s, e);
	if (r < 0) {
		release(s);
		return r;
	}
	v.map_len = (size_t)snprintf(v.map, sizeof(v.map), "0 %u %u", res->id_base, res->id_count);
	pid = bring_up(s, &v, &pidfd, &served, e);
	p.fd = pidfd;
	if (pid < 0) {
		r = err_set(e, ERR_UNSUPPORTED, -pid,
			    "%s: %s (run 'brig check' to see what this host lacks)",
			    pid == -ENOSPC
				? "user namespaces: user.max_user_namespaces is reached, or 0"
			    : pid == -EPERM || pid == -EACCES
				? "user namespaces: this host does not allow them here"
				: "user and other namespaces cannot be made",
			    strerror(-pid));
	} else if (served < 0 || s->failure.errnum != 0 || poll(&p, 1, 0) != 0 ||
		   s->net_err < 0 || (res->net != NULL && !s->has_net)) {
		(void)kill(pid, SIGKILL);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		r = explain(s, &v, served, e);
		if (s->has_net)
			net_socks_close(&s->net);
	} else {
		ret->root_pid = pid;
		if (s->has_net)
			ret->net = s->net;
		ret->root_pidfd = steal_fd(&pidfd);
		ret->weaker = (landlock_abi() < 2 ? TIER_NO_LANDLOCK : 0u) |
			      (v.no_idmap ? TIER_NO_IDMAP : 0u);
	}
	release(s);
	return r;
}

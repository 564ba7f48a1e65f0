#include "base/cleanup.h"
#include "base/num.h"
#include "sys/call.h"
#include "sys/file.h"
#include "tier/container/setup_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The set-up child: born by clone3 into every namespace of the sandbox, still in its parent's
 * memory, it builds the root, locks itself in and becomes brig-init by execve, which gives it a
 * memory of its own. Nothing hostile runs before the execve. It leaves why it failed in the memory
 * it shares. It must not free or allocate, nor change a variable of its parent's but those meant
 * for it; the C library's errno is its alone meanwhile (see start.c).
 */

enum {
	FD_STREAM = 3,
	FD_LEAF = 4,
	FD_SAFE = 16
}; /* what brig-init gets; where the rest is kept till then */

static int join_v1(const struct tier_start *s, char *why, size_t size)
{
	(void)snprintf(why, size, "joining the cgroups");
	for (uint32_t i = 0; i < s->res->tasks_n; i++)
		if (write(s->res->tasks_fd[i], "0", 1) != 1)
			return -errno;
	/* so that /proc/self/cgroup does not show where on the host it is */
	return s->res->tasks_n > 0 && unshare(CLONE_NEWCGROUP) < 0 ? -errno : 0;
}

/* Map only the caller, to the image's default user (user_namespaces(7)). */
static int map_self(const struct tier_start *s)
{
	char line[64];
	int r = file_put(AT_FDCWD, "/proc/self/setgroups", "deny");

	if (r < 0)
		return r;
	(void)snprintf(line, sizeof(line), "%u %u 1", s->plan.default_uid, s->res->cap_uid);
	r = file_put(AT_FDCWD, "/proc/self/uid_map", line);
	if (r < 0)
		return r;
	(void)snprintf(line, sizeof(line), "%u %u 1", s->plan.default_gid, s->res->cap_gid);
	return file_put(AT_FDCWD, "/proc/self/gid_map", line);
}

static int become_root(const struct tier_start *s, char *why, size_t size)
{
	char byte;

	(void)snprintf(why, size, "mapping user ids");
	if (s->map_self)
		return map_self(s);
	if (read(s->sync[1], &byte, 1) != 1)
		return -ECANCELED; /* the parent says why */
	/* plain calls: the C library's would also look for other threads */
	if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, 0, 0, 0) < 0 ||
	    syscall(SYS_setresuid, 0, 0, 0) < 0)
		return -errno;
	return 0;
}

/* The image's mounts were inherited; wait until the parent has shifted them to our ids. */
static int wait_parts(const struct tier_start *s, char *why, size_t size)
{
	char byte;

	(void)snprintf(why, size, "waiting for the image's mounts");
	return s->map_self || read(s->sync[1], &byte, 1) == 1 ? 0 : -ECANCELED;
}

static int enter_root(const struct tier_start *s, int root_fd, char *why, size_t size)
{
	_cleanup_close_ int old_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r;

	(void)snprintf(why, size, "entering the new root");
	if (old_fd < 0 || fchdir(root_fd) < 0)
		return -errno;
	r = sys_pivot_root(".", ".");
	if (r < 0)
		return r;
	if (fchdir(old_fd) < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return -errno;
	/* the writable places are binds of their own and stay so */
	return s->spec->root == ROOT_OVERLAY
		   ? 0
		   : sys_mount_setattr(root_fd, 0, MOUNT_ATTR_RDONLY, 0, -1);
}

/* Descriptors of brig-init: 0-2 /dev/null, 3 the stream, 4 the leaf; all others close by execve. */
static int arrange_fds(const struct tier_start *s, int leaf_fd, char *why, size_t size)
{
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int stream = fcntl(s->res->agent_fd, F_DUPFD_CLOEXEC, FD_SAFE);
	int leaf = leaf_fd < 0 ? -1 : fcntl(leaf_fd, F_DUPFD_CLOEXEC, FD_SAFE);

	(void)snprintf(why, size, "arranging descriptors");
	if (null_fd < 0 || stream < 0 || (leaf_fd >= 0 && leaf < 0))
		return -errno;
	for (int fd = 0; fd < 3; fd++)
		if (dup2(null_fd, fd) < 0)
			return -errno;
	if (dup2(stream, FD_STREAM) < 0 || (leaf >= 0 && dup2(leaf, FD_LEAF) < 0))
		return -errno;
	return sys_close_range(leaf >= 0 ? FD_LEAF + 1 : FD_STREAM + 1, ~0u, CLOSE_RANGE_CLOEXEC);
}

/*
 * The leaf as the root of a mount of its own: a way up from it would lead into the host's cgroup
 * tree. (With Landlock nothing can be opened through it anyway; this holds without.)
 */
static int bind_leaf(const struct tier_start *s)
{
	if (s->res->exec_leaf_fd < 0 || s->res->leaf_path == NULL)
		return s->res->exec_leaf_fd;
	return sys_open_tree(AT_FDCWD, s->res->leaf_path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

/*
 * Where brig-init is the caller's own file, its processes could write to it through /proc/PID/exe
 * once it no longer runs: execute it through a read-only mount instead.
 */
static int guard_init(struct tier_start *s, int root_fd, char *why, size_t size)
{
	_cleanup_close_ int tree_fd = -1;
	int r;

	s->init_fd = s->res->init_fd;
	if (s->res->init_path != NULL) {
		(void)snprintf(why, size, "protecting brig-init");
		tree_fd =
		    sys_open_tree(AT_FDCWD, s->res->init_path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
		if (tree_fd < 0)
			return tree_fd;
		r = sys_mount_setattr(
		    tree_fd, 0, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, 0, -1);
		if (r == 0)
			r = put_file(root_fd, ".brig/init", "", 0555);
		if (r == 0)
			r = mount_at(tree_fd, root_fd, ".brig/init");
		if (r < 0)
			return r;
		s->init_fd = tree_fd;
	}
	s->init_fd = fcntl(s->init_fd, F_DUPFD_CLOEXEC, FD_SAFE);
	return s->init_fd < 0 ? -errno : 0;
}

/* The sockets of the gate are made here and handed to the parent; nothing of them stays inside. */
static int make_way_out(struct tier_start *s, char *why, size_t size)
{
	struct net_socks socks;
	int r = net_setup(s->res->net, &socks, why, size);

	if (r < 0)
		return r;
	(void)snprintf(why, size, "network: handing the gate's sockets out");
	r = net_send(s->sync[1], &socks);
	net_socks_close(&socks);
	if (!s->shared)
		s->has_net = r == 0; /* in a memory of our own */
	return r;
}

static int setup_all(struct tier_start *s, char *why, size_t size)
{
	_cleanup_close_ int root_fd = -1;
	int leaf_fd, r;

	(void)close(s->sync[0]); /* so that the parent's death ends the socket for us */
	(void)snprintf(why, size, "parent-death signal");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return -errno;
	r = join_v1(s, why, size);
	if (r < 0)
		return r;
	(void)umask(0);
	(void)snprintf(why, size, "network namespace");
	r = setup_loopback();
	if (r == 0 && s->res->net != NULL)
		r = make_way_out(s, why, size);
	if (r < 0)
		return r;
	(void)snprintf(why, size, "host name");
	if (sethostname(s->spec->hostname != NULL ? s->spec->hostname : "brig",
			strlen(s->spec->hostname != NULL ? s->spec->hostname : "brig")) < 0)
		return -errno;
	r = become_root(s, why, size);
	/* a change of ids clears it */
	if (r == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		r = -errno;
	if (r == 0)
		r = wait_parts(s, why, size);
	if (r < 0)
		return r;
	(void)snprintf(why, size, "binding the exec's cgroup");
	leaf_fd = bind_leaf(s);
	if (leaf_fd < 0 && s->res->exec_leaf_fd >= 0)
		return leaf_fd;
	r = setup_root(s, &root_fd, why, size);
	if (r == 0)
		r = guard_init(s, root_fd, why, size);
	if (r == 0)
		r = setup_devices(root_fd, why, size);
	if (r == 0)
		r = setup_proc(root_fd, why, size);
	if (r == 0)
		r = enter_root(s, root_fd, why, size);
	if (r == 0)
		r = setup_rlimits(s->spec, s->res->count_pids, why, size);
	return r == 0 ? arrange_fds(s, leaf_fd, why, size) : r;
}

static _Noreturn void fail(struct tier_start *s, int r)
{
	const struct net_socks none = NET_SOCKS_NONE;

	s->failure.errnum = -r;
	if (!s->shared && s->res->net != NULL && !s->has_net)
		(void)!net_send(s->sync[1], &none); /* what the parent waits for first */
	if (!s->shared)
		(void)!send(s->sync[1], &s->failure, sizeof(s->failure), MSG_NOSIGNAL);
	_exit(1);
}

void setup_child(const void *arg)
{
	/* the one argument of a borrowing child, whose parent handed it its own */
	struct tier_start *s = *(struct tier_start *const *)arg;
	char stream_arg[] = "stream=3", leaf_arg[] = "leaf=4", name[] = "brig-init";
	char user_arg[280], caps_arg[32], sudo_arg[32], measure_arg[32];
	char *argv[8], *envp[] = {NULL};
	int argc = 0, r;

	r = setup_all(s, s->failure.why, sizeof(s->failure.why));
	if (r < 0)
		fail(s, r);
	(void)snprintf(user_arg, sizeof(user_arg), "user=%s", s->plan.user);
	(void)snprintf(caps_arg, sizeof(caps_arg), "rootcaps=%s",
		       s->spec->root_caps == ROOT_CAPS_FILES ? "files" : "none");
	(void)snprintf(sudo_arg, sizeof(sudo_arg), "sudo=%u", s->plan.uid);
	argv[argc++] = name;
	argv[argc++] = stream_arg;
	if (s->res->exec_leaf_fd >= 0)
		argv[argc++] = leaf_arg;
	argv[argc++] = user_arg;
	argv[argc++] = caps_arg;
	if (s->spec->sudo != SUDO_NO)
		argv[argc++] = sudo_arg;
	if (s->spec->measure) {
		/* with a gate whatever is tried would be answered, and recorded, by the gate */
		(void)snprintf(measure_arg, sizeof(measure_arg), "measure=%s", s->spec->egress == NULL ? "net" : "walls");
		argv[argc++] = measure_arg;
	}
	argv[argc] = NULL;
	(void)umask(022);
	r = setup_jail(s, s->failure.why, sizeof(s->failure.why));
	if (r < 0)
		fail(s, r);
	(void)snprintf(s->failure.why, sizeof(s->failure.why), "starting brig-init");
	fail(s, sys_execveat(s->init_fd, argv, envp));
}

/*
 * Changes what is mounted, by the old calls and the new ones. The control is root of throw-away namespaces.
 *
 * group: mounts
 * tries: mount, bind, remount writable, unmount a mask, move, clone and pivot, by mount(2) and by the fs and tree calls
 * control: ns
 */
#include <linux/mount.h>
#include <sched.h>
#include <sys/mount.h>

#include "attack.h"

static long bind_root(void *arg)
{
	(void)arg;
	return mount("/usr", "/tmp", NULL, MS_BIND | MS_REC, NULL);
}

static long tmpfs(void *arg)
{
	return mount("none", arg, "tmpfs", 0, NULL);
}

/* Nested: a tmpfs of our own inside the writable one, then one on top of it. */
static long nested(void *arg)
{
	if (mount("none", "/tmp", "tmpfs", 0, NULL) == 0)
		(void)mkdir("/tmp/nested", 0700);
	return mount("none", "/tmp/nested", "tmpfs", 0, arg) < 0 ? -1 : mount("none", "/tmp/nested", "tmpfs", 0, NULL);
}

static long overlay(void *arg)
{
	(void)arg;
	if (mount("none", "/tmp", "tmpfs", 0, NULL) == 0) {
		(void)mkdir("/tmp/u", 0700);
		(void)mkdir("/tmp/w", 0700);
	}
	return mount("o", "/tmp", "overlay", 0, "lowerdir=/usr,upperdir=/tmp/u,workdir=/tmp/w,userxattr");
}

static long proc(void *arg)
{
	return mount("none", arg, "proc", 0, NULL);
}

static long remount(void *arg)
{
	return mount(NULL, arg, NULL, MS_REMOUNT | MS_BIND | MS_NOSUID, NULL);
}

static long propagation(void *arg)
{
	return mount(NULL, arg, NULL, MS_SHARED | MS_REC, NULL);
}

/* A mask taken away: the topmost mount of the place. */
static long unmask(void *arg)
{
	long r = umount2("/proc/kcore", MNT_DETACH);

	return r < 0 ? umount2(arg, MNT_DETACH) : r;
}

static long clone_tree(void *arg)
{
	return syscall(SYS_open_tree, AT_FDCWD, arg, OPEN_TREE_CLONE | AT_RECURSIVE);
}

static long move(void *arg)
{
	long fd = clone_tree(arg);

	return syscall(SYS_move_mount, fd, "", AT_FDCWD, "/tmp", MOVE_MOUNT_F_EMPTY_PATH);
}

static long open_fs(void *arg)
{
	return syscall(SYS_fsopen, arg, 0);
}

static long new_fs(void *arg)
{
	long fd = syscall(SYS_fsopen, arg, 0);

	if (syscall(SYS_fsconfig, fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	return syscall(SYS_fsmount, fd, 0, 0);
}

static long pick(void *arg)
{
	return syscall(SYS_fspick, AT_FDCWD, arg, 0);
}

static long attributes(void *arg)
{
	struct mount_attr a = {.attr_set = MOUNT_ATTR_NOEXEC};
	long fd = clone_tree(arg);

	return syscall(SYS_mount_setattr, fd < 0 ? AT_FDCWD : fd, fd < 0 ? arg : "", fd < 0 ? 0 : AT_EMPTY_PATH, &a, sizeof(a));
}

static long pivot(void *arg)
{
	(void)mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL);
	if (mount("none", "/tmp", "tmpfs", 0, NULL) < 0)
		return syscall(SYS_pivot_root, "/tmp", "/tmp");
	return chdir("/tmp") < 0 ? -1 : syscall(SYS_pivot_root, arg, arg);
}

/* The classic way out: a root further down than the working folder, and up from there. */
static long chroot_games(void *arg)
{
	int up = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long r = chroot(arg);

	return r < 0 || fchdir(up) < 0 || chdir("../../..") < 0 ? -1 : chroot(".");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *key;
		long (*fn)(void *);
		char arg[16];
	} all[] = {
	    {"tmpfs", tmpfs, "/tmp"}, {"tmpfs-over-usr", tmpfs, "/usr"}, {"nested", nested, ""}, {"bind", bind_root, ""},
	    {"overlay", overlay, ""}, {"proc", proc, "/proc"}, {"propagation", propagation, "/"}, {"remount", remount, "/proc"},
	    {"unmask", unmask, "/proc"}, {"open_tree", clone_tree, "/"}, {"move_mount", move, "/"},
	    {"fsopen", open_fs, "tmpfs"}, {"fsmount", new_fs, "tmpfs"}, {"fspick", pick, "/proc"},
	    {"mount_setattr", attributes, "/usr"}, {"pivot_root", pivot, "."}, {"chroot", chroot_games, "/usr"},
	};

	(void)argc;
	(void)argv;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		char arg[16];

		memcpy(arg, all[i].arg, sizeof(arg));
		/* Where it is allowed, each try has a mount namespace of its own; inside there is none to be had. */
		if (fork() == 0) {
			(void)unshare(CLONE_NEWNS);
			errno = 0;
			tried(all[i].key, all[i].fn(arg));
			_exit(0);
		}
		(void)wait(NULL);
	}
	return ended();
}

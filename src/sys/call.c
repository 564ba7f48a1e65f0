#include "sys/call.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

static int ret(long r) { return r < 0 ? -errno : (int)r; }

int sys_open_tree(int dirfd, const char *path, unsigned flags)
{
	return ret(syscall(SYS_open_tree, dirfd, path, flags));
}

int sys_move_mount(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
	return ret(syscall(SYS_move_mount, from_fd, from, to_fd, to, flags));
}

int sys_fsopen(const char *fs, unsigned flags) { return ret(syscall(SYS_fsopen, fs, flags)); }

int sys_fsconfig(int fd, unsigned cmd, const char *key, const char *value, int aux)
{
	return ret(syscall(SYS_fsconfig, fd, cmd, key, value, aux));
}

int sys_fsmount(int fd, unsigned flags, unsigned attrs)
{
	return ret(syscall(SYS_fsmount, fd, flags, attrs));
}

int sys_mount_setattr(int fd, unsigned flags, uint64_t set, uint64_t clear, int userns_fd)
{
	struct mount_attr a = {.attr_set = set, .attr_clr = clear};

	if (userns_fd >= 0)
		a.userns_fd = (unsigned)userns_fd;
	return ret(syscall(SYS_mount_setattr, fd, "", flags | AT_EMPTY_PATH, &a, sizeof(a)));
}

int sys_mount_private(int fd, unsigned flags)
{
	struct mount_attr a = {.propagation = MS_PRIVATE};

	return ret(syscall(SYS_mount_setattr, fd, "", flags | AT_EMPTY_PATH, &a, sizeof(a)));
}

int sys_pivot_root(const char *new_root, const char *put_old)
{
	return ret(syscall(SYS_pivot_root, new_root, put_old));
}

int sys_openat2(int dirfd, const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = resolve};

	return ret(syscall(SYS_openat2, dirfd, path, &how, sizeof(how)));
}

int sys_pidfd_open(pid_t pid) { return ret(syscall(SYS_pidfd_open, pid, 0)); }

int sys_pidfd_send_signal(int pidfd, int sig)
{
	return ret(syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0));
}

pid_t sys_clone3(struct clone_args *args) { return ret(syscall(SYS_clone3, args, sizeof(*args))); }

int sys_execveat(int fd, char *const argv[], char *const envp[])
{
	return ret(syscall(SYS_execveat, fd, "", argv, envp, AT_EMPTY_PATH));
}

int sys_exchange(const char *a, const char *b)
{
	const unsigned exchange = 1 << 1; /* linux/fs.h, which fits no C library's stdio.h */

	return ret(syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, exchange));
}

int sys_close_range(unsigned first, unsigned last, unsigned flags)
{
	return ret(syscall(SYS_close_range, first, last, flags));
}

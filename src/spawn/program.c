#include "spawn/program.h"

#include "base/cleanup.h"
#include "sys/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* brig's other programs are found by place, never by PATH. */

static int try_program(const char *path, int *ret_fd, bool *ret_ours, struct err *e)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (st.st_mode & 0111) == 0)
		return -ENOENT;
	if ((st.st_mode & 022) != 0 || (st.st_uid != 0 && st.st_uid != geteuid()))
		return err_set(
		    e, ERR_DENIED, EPERM,
		    "'%s' could be changed by others: it must belong to root or you, mode 0755",
		    path);
	*ret_ours = st.st_uid == geteuid() && !ids_host_root();
	*ret_fd = steal_fd(&fd);
	return 0;
}

int program_find(const char *name, char *path, size_t size, int *ret_fd, bool *ret_ours, struct err *e)
{
	size_t len = strlen(name) + 1;
	ssize_t n = readlink("/proc/self/exe", path, size - len);
	char *slash;
	int r = -ENOENT;

	if (n > 0) {
		path[n] = '\0';
		slash = strrchr(path, '/');
		if (slash != NULL) {
			memcpy(slash + 1, name, len);
			r = try_program(path, ret_fd, ret_ours, e);
		}
	}
	if (r == -ENOENT) {
		(void)snprintf(path, size, "%s/%s", BRIG_LIBEXECDIR, name);
		r = try_program(path, ret_fd, ret_ours, e);
	}
	if (r < 0 && e != NULL && e->kind == ERR_NONE)
		return err_set(
		    e, ERR_NOT_FOUND, -r,
		    "%s not found beside brig nor in %s: run 'make' or 'make install'", name,
		    BRIG_LIBEXECDIR);
	return r;
}

enum { CTL_FD = 3, PEER_FD = 4 }; /* wire/gate.h, wire/inspect.h */

static int set_signals(posix_spawnattr_t *at)
{
	sigset_t none, all;
	int r;

	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	/* the terminal's signals are for brig */
	r = posix_spawnattr_setflags(at, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	if (r == 0)
		r = posix_spawnattr_setsigmask(at, &none);
	return r == 0 ? posix_spawnattr_setsigdefault(at, &all) : r;
}

int program_spawn(int prog_fd, const char *name, int ctl, int peer, pid_t *ret)
{
	char path[32], arg0[32], *argv[] = {arg0, NULL}, *envp[] = {NULL};
	_cleanup_close_ int high_fd = fcntl(prog_fd, F_DUPFD_CLOEXEC, 16); /* out of the way of 3 and 4 */
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t at;
	int r;

	if (high_fd < 0)
		return -errno;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", high_fd);
	(void)snprintf(arg0, sizeof(arg0), "%s", name);
	if (posix_spawn_file_actions_init(&fa) != 0)
		return -ENOMEM;
	if (posix_spawnattr_init(&at) != 0) {
		(void)posix_spawn_file_actions_destroy(&fa);
		return -ENOMEM;
	}
	r = set_signals(&at);
	for (int fd = 0; r == 0 && fd < 3; fd++)
		r = posix_spawn_file_actions_addopen(&fa, fd, "/dev/null", O_RDWR, 0);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(&fa, ctl, CTL_FD);
	if (r == 0 && peer >= 0)
		r = posix_spawn_file_actions_adddup2(&fa, peer, PEER_FD);
	if (r == 0)
		r = posix_spawn(ret, path, &fa, &at, argv, envp); /* everything but these is closed by execve */
	(void)posix_spawnattr_destroy(&at);
	(void)posix_spawn_file_actions_destroy(&fa);
	return -r;
}

#include "spawn/cgroup.h"

#include "base/cleanup.h"
#include "sys/file.h"
#include "sys/loop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Removing cgroups. Theory of operation: the leaves are ours and their names known, which is the
 * short way. Where the folders belong to the caller's own user and there is no Landlock, a hostile
 * PID 1 holds a leaf that it may write: it can have made folders below, any number and depth, and
 * taken the permissions away. So what is left after the short way is removed depth-first, walking
 * by descriptors (a cgroup v2 folder cannot be renamed, so ".." is where one came from), until the
 * deadline; each try gets on.
 */

/* rmdir, retried while processes are still on their way out. */
static int rmdir_wait(int dirfd, const char *name, uint64_t deadline_ms)
{
	for (;;) {
		if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
			return 0;
		if (errno != EBUSY || loop_clock_ms() >= deadline_ms)
			return -errno;
		(void)poll(NULL, 0, 1);
	}
}

int cgset_leaf_kill(struct cgset *c, uint32_t exec_id)
{
	char name[32], kill_file[48];
	int r;

	if (c->v2_fd < 0 || (c->weaker & CG_NO_KILL) != 0)
		return -EOPNOTSUPP;
	(void)snprintf(name, sizeof(name), "exec-%u", exec_id);
	(void)snprintf(kill_file, sizeof(kill_file), "%s/cgroup.kill", name);
	r = file_put(c->v2_fd, kill_file, "1");
	return r < 0 ? r : rmdir_wait(c->v2_fd, name, loop_clock_ms() + 1000);
}

int cgset_leaf_drop(struct cgset *c, uint32_t exec_id)
{
	char name[32];

	if (c->v2_fd < 0)
		return -EOPNOTSUPP;
	(void)snprintf(name, sizeof(name), "exec-%u", exec_id);
	return unlinkat(c->v2_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

/* The first folder in dir_fd: 1 and its name, 0 = there is none, -errno. */
static int first_folder(int dir_fd, char name[NAME_MAX + 1])
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), found = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (d == NULL) {
		int r = -errno;

		if (fd >= 0)
			(void)close(fd);
		return r;
	}
	while (found == 0 && (e = readdir(d)) != NULL) {
		if (e->d_type != DT_DIR || strcmp(e->d_name, ".") == 0 ||
		    strcmp(e->d_name, "..") == 0)
			continue;
		memcpy(name, e->d_name, strlen(e->d_name) + 1);
		found = 1;
	}
	(void)closedir(d);
	return found;
}

/* Everything below fd, which is taken. */
static int remove_below(int fd, uint64_t deadline_ms)
{
	_cleanup_close_ int at = fd;
	char name[NAME_MAX + 1];
	uint32_t depth = 0;
	int next, r;

	do {
		r = first_folder(at, name);
		if (r < 0)
			return r;
		if (r == 0 && depth == 0)
			return 0;
		if (r > 0 && (unlinkat(at, name, AT_REMOVEDIR) == 0 || errno == ENOENT))
			continue;
		if (r > 0 && errno != EBUSY && errno != EACCES)
			return -errno;
		if (r > 0) { /* ours, so its permissions are ours too */
			if (fchmodat(at, name, 0755, 0) < 0 && errno == ENOENT)
				continue;
			next = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			if (next < 0 && errno == ENOENT)
				continue;
			if (next >= 0 && (r = first_folder(next, name)) <= 0) {
				(void)close(next); /* its processes are still on their way out */
				if (r < 0)
					return r;
				(void)poll(NULL, 0, 1);
				continue;
			}
		} else {
			next = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		}
		if (next < 0)
			return -errno;
		depth = r > 0 ? depth + 1 : depth - 1;
		(void)close(at);
		at = next;
	} while (loop_clock_ms() < deadline_ms);
	return -EBUSY;
}

/* Remove a v2 folder of ours with its leaves. */
static int remove_v2(const char *path, uint64_t deadline_ms)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	(void)unlinkat(fd, "exec-1", AT_REMOVEDIR);
	if (unlinkat(AT_FDCWD, path, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	/* more leaves than the first, or processes on their way out */
	r = remove_below(steal_fd(&fd), deadline_ms);
	return r < 0 ? r : rmdir_wait(AT_FDCWD, path, deadline_ms);
}

int cgset_remove(struct cgset *c, unsigned wait_ms)
{
	uint64_t deadline = loop_clock_ms() + wait_ms;
	int r = 0, one;

	if (c->v2_path[0] != '\0') {
		r = remove_v2(c->v2_path, deadline);
		if (r == 0)
			c->v2_path[0] = '\0';
	}
	for (int k = 0; k < CG_V1_COUNT; k++) {
		if (c->v1_path[k][0] == '\0')
			continue;
		one = rmdir_wait(AT_FDCWD, c->v1_path[k], deadline);
		if (one == 0)
			c->v1_path[k][0] = '\0';
		else
			r = one;
	}
	return r;
}

int cgset_sweep(const char *const *paths, uint32_t n, unsigned wait_ms)
{
	uint64_t deadline = loop_clock_ms() + wait_ms;
	char kill_file[600];
	int r = 0, one;

	for (uint32_t i = 0; i < n; i++) {
		(void)snprintf(kill_file, sizeof(kill_file), "%s/cgroup.kill", paths[i]);
		(void)file_put(AT_FDCWD, kill_file, "1");
	}
	for (uint32_t i = 0; i < n; i++) {
		one = remove_v2(paths[i], deadline);
		if (one < 0)
			r = one;
	}
	return r;
}

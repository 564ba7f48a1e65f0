#include "base/cleanup.h"
#include "core/state.h"
#include "image/store_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/*
 * The store's folders and locks. Two kinds of lock, both flock(2): `lock` is held for the short
 * moments in which names and places change; the folder of an image, or of one being made, is held
 * by whoever uses or makes it, for as long as that takes. So what nobody holds in tmp/ is dead.
 */

int store_path(char dst[IMAGE_PATH_MAX], struct err *e)
{
	enum { ROOM = IMAGE_PATH_MAX - IMAGE_DIGEST_LEN - 32 };
	size_t n;
	int r = state_dir(dst, ROOM, e);

	if (r < 0)
		return r;
	n = strlen(dst);
	if (n + sizeof("/images") > (size_t)ROOM)
		return err_set(e, ERR_INVALID, ENAMETOOLONG, "state folder: name too long");
	memcpy(dst + n, "/images", sizeof("/images"));
	return 0;
}

int store_open(struct err *e)
{
	static const char *const parts[] = {"sha256", "refs", "tmp"};
	char path[IMAGE_PATH_MAX];
	_cleanup_close_ int fd = -1;
	struct stat st;
	int r = store_path(path, e);

	if (r == 0)
		r = state_make_dir(path, e);
	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, ERR_DENIED, errno, "image store '%s': %s", path, strerror(errno));
	if (st.st_uid != geteuid() || (st.st_mode & 022) != 0)
		return err_set(
		    e, ERR_DENIED, EPERM,
		    "image store '%s' could be changed by others: it must belong to you, mode 0700",
		    path);
	for (int i = 0; i < 3; i++)
		if (mkdirat(fd, parts[i], 0700) < 0 && errno != EEXIST)
			return err_set(e, ERR_DENIED, errno, "image store '%s': %s", path,
				       strerror(errno));
	return steal_fd(&fd);
}

static int lock_fd(int fd, int how)
{
	int r;

	do
		r = flock(fd, how);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

int store_lock(int store_fd, struct err *e)
{
	_cleanup_close_ int fd =
	    openat(store_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r = fd < 0 ? -errno : lock_fd(fd, LOCK_EX);

	if (r < 0)
		return err_set(e, ERR_DENIED, -r, "image store: its lock: %s", strerror(-r));
	return steal_fd(&fd);
}

int store_tmp(int store_fd, char name[32], int *ret_fd, struct err *e)
{
	/* under the lock, else a sweep could take the folder before it is held */
	_cleanup_close_ int lock = store_lock(store_fd, e);
	_cleanup_close_ int fd = -1;
	uint8_t rnd[8];
	int r;

	if (lock < 0)
		return lock;
	if (getrandom(rnd, sizeof(rnd), 0) != (ssize_t)sizeof(rnd))
		return err_set(e, ERR_INTERNAL, EIO, "no random bytes");
	(void)snprintf(name, 32, "tmp/%02x%02x%02x%02x%02x%02x%02x%02x", rnd[0], rnd[1], rnd[2],
		       rnd[3], rnd[4], rnd[5], rnd[6], rnd[7]);
	if (mkdirat(store_fd, name, 0700) < 0)
		return err_set(e, ERR_INTERNAL, errno, "image store: %s", strerror(errno));
	fd = openat(store_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = fd < 0 ? -errno : lock_fd(fd, LOCK_EX | LOCK_NB);
	if (r < 0)
		return err_set(e, ERR_INTERNAL, -r, "image store: %s", strerror(-r));
	*ret_fd = steal_fd(&fd);
	return 0;
}

void store_sweep(int store_fd)
{
	int tmp = openat(store_fd, "tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int lock = store_lock(store_fd, NULL);
	DIR *d = tmp < 0 ? NULL : fdopendir(tmp);
	struct dirent *ent;

	if (d == NULL || lock < 0) {
		if (d != NULL)
			(void)closedir(d);
		else if (tmp >= 0)
			(void)close(tmp);
		return;
	}
	while ((ent = readdir(d)) != NULL) {
		_cleanup_close_ int fd = -1;

		if (ent->d_name[0] == '.')
			continue;
		fd = openat(tmp, ent->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (fd < 0 || lock_fd(fd, LOCK_EX | LOCK_NB) == 0)
			(void)!tree_remove(tmp, ent->d_name);
	}
	(void)closedir(d);
}

pid_t store_holder(int fd)
{
	_cleanup_free_ char *line = NULL;
	FILE *f = fopen("/proc/locks", "re");
	unsigned maj, min;
	unsigned long long ino;
	pid_t found = 0;
	struct stat st;
	size_t cap = 0;
	int pid;

	if (f == NULL)
		return 0;
	/* "NR: FLOCK ADVISORY READ PID MAJOR:MINOR:INODE 0 EOF" (proc_locks(5)) */
	while (found == 0 && fstat(fd, &st) == 0 && getline(&line, &cap, f) > 0)
		if (sscanf(line, "%*d: FLOCK %*s %*s %d %x:%x:%llu ", &pid, &maj, &min, &ino) ==
			4 &&
		    pid > 0 && pid != getpid() && ino == st.st_ino && maj == major(st.st_dev) &&
		    min == minor(st.st_dev))
			found = pid;
	(void)fclose(f);
	return found;
}

bool store_digest_ok(const char *text, size_t n) { return strspn(text, "0123456789abcdef") >= n; }

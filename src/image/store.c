#include "base/cleanup.h"
#include "core/state.h"
#include "image/store_priv.h"
#include "sys/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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

int store_tmp_name(char name[STORE_TMP_NAME])
{
	uint64_t rnd;

	if (getrandom(&rnd, sizeof(rnd), 0) != (ssize_t)sizeof(rnd))
		return -EIO;
	(void)snprintf(name, STORE_TMP_NAME, "tmp/%016" PRIx64, rnd);
	return 0;
}

int store_tmp(int store_fd, char name[STORE_TMP_NAME], int *ret_fd, struct err *e)
{
	/* under the lock, else a sweep could take the folder before it is held */
	_cleanup_close_ int lock = store_lock(store_fd, e);
	_cleanup_close_ int fd = -1;
	int r;

	if (lock < 0)
		return lock;
	r = store_tmp_name(name);
	if (r == 0 && mkdirat(store_fd, name, 0700) < 0)
		r = -errno;
	if (r == 0) {
		fd = openat(store_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = fd < 0 ? -errno : lock_fd(fd, LOCK_EX | LOCK_NB);
	}
	if (r < 0)
		return err_set(e, ERR_INTERNAL, -r, "image store: %s", strerror(-r));
	*ret_fd = steal_fd(&fd);
	return 0;
}

enum { SWEEP_STEP = 64 };

struct dead {
	int fd; /* holds the folder, so that no other sweep takes it; -1 = it is no folder */
	char name[STORE_TMP_NAME];
};

/* Under the lock: hold what nobody holds, up to SWEEP_STEP of it. */
static size_t find_dead(int store_fd, struct dead v[SWEEP_STEP])
{
	int tmp = openat(store_fd, "tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int lock = store_lock(store_fd, NULL);
	DIR *d = tmp < 0 ? NULL : fdopendir(tmp);
	struct dirent *ent;
	size_t n = 0;

	if (d == NULL && tmp >= 0)
		(void)close(tmp);
	while (d != NULL && lock >= 0 && n < SWEEP_STEP && (ent = readdir(d)) != NULL) {
		if (ent->d_name[0] == '.' || strlen(ent->d_name) + sizeof("tmp/") > STORE_TMP_NAME)
			continue;
		v[n].fd = openat(tmp, ent->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (v[n].fd >= 0 && lock_fd(v[n].fd, LOCK_EX | LOCK_NB) < 0) {
			(void)close(v[n].fd);
			continue;
		}
		(void)snprintf(v[n++].name, STORE_TMP_NAME, "tmp/%.27s", ent->d_name);
	}
	if (d != NULL)
		(void)closedir(d);
	return n;
}

void store_sweep(int store_fd)
{
	struct dead v[SWEEP_STEP];
	bool failed = false;
	size_t n = SWEEP_STEP;

	while (n == SWEEP_STEP && !failed) {
		n = find_dead(store_fd, v);
		for (size_t i = 0; i < n; i++) {
			failed = tree_remove(store_fd, v[i].name) < 0 || failed;
			if (v[i].fd >= 0)
				(void)close(v[i].fd);
		}
	}
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

#include "spawn/record.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "core/state.h"
#include "spawn/cgroup.h"
#include "spawn/sandbox_priv.h"
#include "sys/file.h"
#include "sys/loop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Theory of operation. flock locks belong to the open file, so the forked runner shares its
 * caller's and the lock is free only when both are gone. A claimer makes or opens the file of the
 * first slot it can lock; a file that was unlinked between open and lock is noticed by its link
 * count. The folder is 0700; its contents are ours, but a record may be torn (we may die while
 * writing), so everything read back is checked: a path that is not below /sys/fs/cgroup and inside
 * a brig/local folder is ignored.
 */

/* Records are of this boot only, so they lie where a boot starts empty, unless BRIG_STATE says
 * where. */
static int folder_path(const char *name, char *dst, size_t size, struct err *e)
{
	const char *state = getenv("BRIG_STATE"), *run = getenv("XDG_RUNTIME_DIR");
	size_t at;
	int n, r;

	if (state == NULL || state[0] == '\0') {
		if (geteuid() == 0)
			run = "/run";
		if (run != NULL && run[0] == '/') {
			n = snprintf(dst, size, "%s/brig/%s", run, name);
			return n > 0 && (size_t)n < size
				   ? 0
				   : err_set(e, ERR_INVALID, ENAMETOOLONG, "XDG_RUNTIME_DIR");
		}
	}
	r = state_dir(dst, size - strlen(name) - 2, e);
	at = strlen(dst);
	if (r == 0)
		(void)snprintf(dst + at, size - at, "/%s", name);
	return r;
}

int record_folder(const char *name, bool make, int *ret_fd, struct err *e)
{
	char path[512];
	struct stat st;
	int fd, r;

	r = folder_path(name, path, sizeof(path), e);
	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && !make)
		return -ENOENT;
	if (fd < 0 && errno == ENOENT) {
		r = state_make_dir(path, e);
		if (r < 0)
			return r;
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (fd < 0)
		return err_set(e, ERR_DENIED, errno,
			       "state folder '%s': %s (set BRIG_STATE to a folder you own)", path,
			       strerror(errno));
	if (fstat(fd, &st) < 0 || (st.st_uid != geteuid() && (make || geteuid() != 0)) || (st.st_mode & 022) != 0) {
		(void)close(fd);
		return err_set(
		    e, ERR_DENIED, EPERM,
		    "state folder '%s' must belong to you and be writable by nobody else", path);
	}
	*ret_fd = fd;
	return 0;
}

/* Open and lock one record. 0 and *ret_fd; -EBUSY held by somebody; -EAGAIN it went away meanwhile.
 */
static int lock_slot(int dir_fd, const char *name, int flags, int *ret_fd)
{
	_cleanup_close_ int fd =
	    openat(dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_nlink == 0)
		return -EAGAIN;
	*ret_fd = steal_fd(&fd);
	return 0;
}

static int boot_id(char dst[64])
{
	ssize_t n = file_get(AT_FDCWD, "/proc/sys/kernel/random/boot_id", dst, 64);

	if (n < 0)
		return (int)n;
	dst[strcspn(dst, "\n")] = '\0';
	return 0;
}

static bool path_is_ours(const char *path)
{
	return strncmp(path, "/sys/fs/cgroup/", 15) == 0 && strstr(path, "/brig/local/") != NULL &&
	       strstr(path, "/..") == NULL;
}

/* Kill and remove what an abandoned, locked record names. */
static int sweep_locked(int fd, unsigned wait_ms)
{
	char text[4096], boot[64] = "", *line, *save = NULL;
	const char *paths[RECORD_CGROUPS_MAX];
	bool same_boot = false;
	uint32_t n = 0;
	ssize_t len = pread(fd, text, sizeof(text) - 1, 0);

	if (len <= 0)
		return 0;
	text[len] = '\0';
	if (boot_id(boot) < 0)
		return -EIO; /* cannot tell: it stays */
	for (line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
		if (strncmp(line, "boot=", 5) == 0)
			same_boot = strcmp(line + 5, boot) == 0;
		else if (strncmp(line, "cgroup=", 7) == 0 && n < RECORD_CGROUPS_MAX &&
			 path_is_ours(line + 7))
			paths[n++] = line + 7;
	}
	return same_boot && n > 0 ? cgset_sweep(paths, n, wait_ms) : 0;
}

static int claim_in(int dir_fd, uint32_t *ret_slot, int *ret_fd)
{
	char name[16];

	for (uint32_t slot = 0; slot < RECORD_SLOTS; slot++) {
		int fd = -1, r;

		(void)snprintf(name, sizeof(name), "%u", slot);
		do
			r = lock_slot(dir_fd, name, O_CREAT, &fd);
		while (r == -EAGAIN);
		if (r == -EBUSY)
			continue;
		if (r < 0)
			return r;
		/* somebody's leftover: it must be gone before its ids are used again; no start
		 * waits for that */
		if (sweep_locked(fd, 0) < 0) {
			(void)close(fd);
			continue;
		}
		*ret_slot = slot;
		*ret_fd = fd;
		return 0;
	}
	return -EUSERS;
}

int record_claim(const char *id, struct record *ret, struct err *e)
{
	_cleanup_close_ int dir_fd = -1;
	char boot[64], text[256];
	uint32_t slot = 0;
	int fd = -1, n, r = record_folder("live", true, &dir_fd, e);

	if (r < 0)
		return r;
	r = claim_in(dir_fd, &slot, &fd);
	if (r == -EUSERS)
		return err_set(e, ERR_LIMITED, EUSERS, "%d sandboxes are alive already",
			       RECORD_SLOTS);
	if (r < 0)
		return err_set(e, ERR_DENIED, -r, "state folder: cannot write a record: %s",
			       strerror(-r));
	r = boot_id(boot);
	n = r < 0 ? 0 : snprintf(text, sizeof(text), "brig-record 1\nboot=%s\nid=%s\n", boot, id);
	if (r == 0 && (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) != n))
		r = -errno;
	if (r < 0) {
		(void)close(fd);
		return err_set(e, ERR_INTERNAL, -r, "state folder: cannot write a record: %s",
			       strerror(-r));
	}
	*ret = (struct record){.fd = fd, .dir_fd = steal_fd(&dir_fd), .slot = slot};
	return 0;
}

int record_note(struct record *r, const char *const *paths, uint32_t n)
{
	char text[4096];
	size_t used = 0;

	for (uint32_t i = 0; i < n; i++) {
		int w = snprintf(text + used, sizeof(text) - used, "cgroup=%s\n", paths[i]);

		if (w < 0 || (size_t)w >= sizeof(text) - used)
			return -ENAMETOOLONG;
		used += (size_t)w;
	}
	if (lseek(r->fd, 0, SEEK_END) < 0)
		return -errno;
	return file_write_all(r->fd, text, used);
}

void record_close(struct record *r)
{
	if (r->fd >= 0)
		(void)close(r->fd);
	if (r->dir_fd >= 0)
		(void)close(r->dir_fd);
	r->fd = r->dir_fd = -1;
}

void record_drop(struct record *r)
{
	struct stat st;
	char name[16];

	/* the other holder may have removed it already: then the name is somebody else's by now */
	if (r->fd >= 0 && fstat(r->fd, &st) == 0 && st.st_nlink > 0) {
		(void)snprintf(name, sizeof(name), "%u", r->slot);
		(void)unlinkat(r->dir_fd, name, 0);
	}
	record_close(r);
}

int record_sweep(unsigned wait_ms)
{
	uint64_t deadline = loop_clock_us() + (uint64_t)wait_ms * 1000;
	struct err e = ERR_INIT;
	struct dirent *ent;
	int dir_fd = -1, swept = 0, r = record_folder("live", true, &dir_fd, &e);
	DIR *d;

	if (r < 0)
		return r;
	d = fdopendir(dir_fd);
	if (d == NULL) {
		r = -errno;
		(void)close(dir_fd);
		return r;
	}
	while ((ent = readdir(d)) != NULL) {
		uint64_t now = loop_clock_us();
		int fd = -1;

		if (ent->d_name[0] < '0' || ent->d_name[0] > '9' ||
		    lock_slot(dirfd(d), ent->d_name, 0, &fd) < 0)
			continue;
		if (sweep_locked(fd, now < deadline ? (unsigned)((deadline - now) / 1000) : 0) ==
			0 &&
		    unlinkat(dirfd(d), ent->d_name, 0) == 0)
			swept++;
		(void)close(fd);
	}
	(void)closedir(d);
	return swept;
}

#include "guest/entry.h"
#include "guest/worker.h"

#include "base/cleanup.h"
#include "base/num.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

/*
 * READ and WRITE. Paths are resolved as the user's own program would resolve them. Only regular files are
 * read or written: opening never blocks and a device is refused.
 *
 * A whole-file WRITE goes into a new file beside the target and replaces it by rename(2), so that a
 * reader sees the old or the new contents and a broken transfer changes nothing. Where that cannot be
 * (another owner's file, a folder the user may not write) the file is rewritten in place.
 */

enum { PIECE = 64 * 1024, HOPS_MAX = 40 };

static uint8_t piece[PIECE];

int fileop_read(struct worker *w)
{
	uint64_t off = ask_has(w->ask, F_OFFSET) ? w->ask->offset : 0;
	uint64_t left = ask_has(w->ask, F_LENGTH) ? w->ask->length : UINT64_MAX;
	_cleanup_close_ int fd = open(w->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC |
							(w->ask->flags & REQ_NOFOLLOW ? O_NOFOLLOW : 0));
	struct stat st;

	if (fd < 0)
		return worker_fail(w, errno, "read", w->path);
	if (fstat(fd, &st) < 0)
		return worker_fail(w, errno, "read", w->path);
	if (!S_ISREG(st.st_mode))
		return worker_fail(w, S_ISDIR(st.st_mode) ? EISDIR : EINVAL, "not a regular file", w->path);
	while (left > 0) {
		ssize_t n = pread(fd, piece, (size_t)MIN(left, (uint64_t)PIECE), (off_t)off);
		int r;

		if (n < 0)
			return worker_fail(w, errno, "read", w->path);
		if (n == 0)
			break;
		r = worker_out(w, piece, (size_t)n);
		if (r < 0)
			return r;
		off += (uint64_t)n;
		left -= (uint64_t)n;
	}
	return 0;
}

static int copy_in(const struct worker *w, int fd)
{
	for (;;) {
		ssize_t n = read(STDIN_FILENO, piece, sizeof(piece));
		ssize_t done = 0;

		if (n == 0)
			return 0;
		if (n < 0)
			return worker_fail(w, errno, "receiving", NULL);
		while (done < n) {
			ssize_t put = write(fd, piece + done, (size_t)(n - done));

			if (put < 0)
				return worker_fail(w, errno, "write", w->path);
			done += put;
		}
	}
}

/* The new file's name, for the handler that removes it when the request is ended early. */
static char temp_name[4096 + 32];

static void on_term(int sig)
{
	(void)sig;
	if (temp_name[0] != '\0')
		(void)unlink(temp_name);
	_exit(1);
}

/* Follow a final symbolic link by hand, so that the new file lands beside what it points to.
 * path is rewritten. 0 or -errno. */
static int resolve_last(char path[4096])
{
	for (int hop = 0; hop < HOPS_MAX; hop++) {
		char target[4096], *slash = strrchr(path, '/');
		ssize_t n = readlink(path, target, sizeof(target));

		if (n < 0)
			return errno == EINVAL || errno == ENOENT ? 0 : -errno;
		if ((size_t)n >= sizeof(target))
			return -ENAMETOOLONG;
		target[n] = '\0';
		if (target[0] == '/')
			slash = path;
		else
			slash++;
		if ((size_t)(slash - path) + (size_t)n >= 4096)
			return -ENAMETOOLONG;
		memcpy(slash, target, (size_t)n + 1);
	}
	return -ELOOP;
}

static int write_in_place(struct worker *w, int flags, mode_t mode)
{
	_cleanup_close_ int fd = open(w->path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags, mode);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return worker_fail(w, errno, "write", w->path);
	if (!S_ISREG(st.st_mode))
		return worker_fail(w, EINVAL, "not a regular file", w->path);
	if (!(flags & O_APPEND) && ftruncate(fd, 0) < 0)
		return worker_fail(w, errno, "write", w->path);
	r = entry_set_xattrs(w, fd);
	if (r < 0)
		return worker_fail(w, -r, "setting attributes of", w->path);
	r = copy_in(w, fd);
	if (r == 0 && ask_has(w->ask, F_MODE) && fchmod(fd, mode) < 0)
		return worker_fail(w, errno, "setting the mode of", w->path);
	return r;
}

/* 0, -errno; *ret_fd = -1 when a new file cannot be made there. */
static int make_temp(const char *path, int *ret_fd)
{
	const char *slash = strrchr(path, '/');
	uint64_t r;
	int fd;

	if (getrandom(&r, sizeof(r), 0) != (ssize_t)sizeof(r))
		return -EIO;
	(void)snprintf(temp_name, sizeof(temp_name), "%.*s/.brig-%016llx", (int)(slash - path), path,
		       (unsigned long long)r);
	fd = open(temp_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0) {
		temp_name[0] = '\0';
		if (errno != EACCES && errno != EPERM && errno != ENAMETOOLONG)
			return -errno;
	}
	*ret_fd = fd;
	return 0;
}

static int replace(struct worker *w, int fd, mode_t mode)
{
	int r = entry_set_xattrs(w, fd);

	r = r < 0 ? worker_fail(w, -r, "setting attributes of", w->path) : copy_in(w, fd);
	if (r == 0 && (fchmod(fd, mode) < 0 || rename(temp_name, w->path) < 0))
		r = worker_fail(w, errno, "write", w->path);
	if (r < 0)
		(void)unlink(temp_name);
	temp_name[0] = '\0';
	return r;
}

/* Writable by this user at all? Asked of the kernel, by opening. */
static int check_target(struct worker *w, const struct stat *st)
{
	_cleanup_close_ int fd = -1;

	if (!S_ISREG(st->st_mode))
		return worker_fail(w, S_ISDIR(st->st_mode) ? EISDIR : EINVAL, "not a regular file", w->path);
	fd = open(w->path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? worker_fail(w, errno, "write", w->path) : 0;
}

int fileop_write(struct worker *w)
{
	mode_t mode = ask_has(w->ask, F_MODE) ? (mode_t)w->ask->mode : 0644;
	_cleanup_close_ int fd = -1;
	struct stat st;
	int r = 0;

	(void)sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_term}, NULL);
	if (w->path[strlen(w->path) - 1] == '/')
		return worker_fail(w, EISDIR, "write", w->path);
	if (w->ask->flags & REQ_PARENTS)
		r = worker_parents(w->path);
	if (r == 0 && !(w->ask->flags & REQ_NOFOLLOW))
		r = resolve_last(w->path);
	if (r < 0)
		return worker_fail(w, -r, "write", w->path);
	if (w->ask->flags & REQ_APPEND)
		return write_in_place(w, O_APPEND | O_CREAT | O_NOFOLLOW, mode);
	if (w->ask->flags & REQ_IN_PLACE)
		return write_in_place(w, O_CREAT | O_NOFOLLOW, mode);
	if (lstat(w->path, &st) == 0) {
		if (!(S_ISLNK(st.st_mode) && w->ask->flags & REQ_NOFOLLOW)) {
			r = check_target(w, &st);
			if (r < 0)
				return r;
			if (st.st_uid != w->user->uid)
				return write_in_place(w, O_NOFOLLOW, mode);
		}
		if (!ask_has(w->ask, F_MODE) && S_ISREG(st.st_mode))
			mode = st.st_mode & 07777;
	} else if (errno != ENOENT) {
		return worker_fail(w, errno, "write", w->path);
	}
	r = make_temp(w->path, &fd);
	if (r < 0)
		return worker_fail(w, -r, "write", w->path);
	return fd < 0 ? write_in_place(w, O_CREAT | O_NOFOLLOW, mode) : replace(w, fd, mode);
}

#include "guest/worker.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "wire/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/*
 * PACK_IN: unpacks a stream at PATH. PATH itself is resolved as the user's own program would; below it
 * every step is openat2(2) with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS, so that neither a link
 * that was unpacked before nor one that a running program plants meanwhile leads anywhere else. What
 * is in the way of a file or link is removed first (never a folder).
 *
 * The stream comes from the host but is checked as if it did not.
 */

enum { PIECE = 64 * 1024, LATE_MAX = 1 << 18, LATE_BYTES = 32 * 1024 * 1024 };

struct late { /* a folder whose real mode would have kept us from filling it */
	char *path;
	mode_t mode;
};

struct unpacker {
	struct worker *w;
	int root;          /* PATH as a folder, -1 = not met yet */
	int dir;           /* the folder of the last entry */
	char dir_path[PACK_PATH_MAX + 1];
	int file;          /* being written */
	off_t off;
	struct pack_decoder d;
	struct late *late; /* at most LATE_MAX, with LATE_BYTES of paths */
	size_t late_n, late_cap, late_bytes;
};

static int fail(struct unpacker *u, int err, const char *what)
{
	const char *name = u->d.entry.path[0] != '\0' ? u->d.entry.path : u->w->path;

	return worker_fail(u->w, err, what, name);
}

static int open_below(int at, const char *path, uint64_t flags)
{
	struct open_how how = {.flags = flags | O_CLOEXEC,
			       .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};

	return (int)syscall(SYS_openat2, at, path, &how, sizeof(how));
}

/* Make each missing folder of path below root. 0 or -errno. */
static int make_parents(int root, const char *path)
{
	_cleanup_close_ int at = dup(root);
	char part[256];

	while (at >= 0 && *path != '\0') {
		size_t n = strcspn(path, "/");
		int next;

		if (n >= sizeof(part))
			return -ENAMETOOLONG;
		memcpy(part, path, n);
		part[n] = '\0';
		path += n + (path[n] != '\0');
		if (mkdirat(at, part, 0755) < 0 && errno != EEXIST)
			return -errno;
		next = open_below(at, part, O_PATH | O_DIRECTORY);
		if (next < 0)
			return -errno;
		(void)close(at);
		at = next;
	}
	return at < 0 ? -errno : 0;
}

/* u->dir = the folder of the current entry, *ret_name its last component. 0 or -errno (not reported). */
static int enter_folder(struct unpacker *u, const char **ret_name)
{
	const char *path = u->d.entry.path, *slash = strrchr(path, '/');
	size_t n = slash == NULL ? 0 : (size_t)(slash - path);
	char folder[PACK_PATH_MAX + 1];
	int fd;

	*ret_name = slash == NULL ? path : slash + 1;
	memcpy(folder, path, n);
	folder[n] = '\0';
	if (u->dir >= 0 && strcmp(folder, u->dir_path) == 0)
		return 0;
	fd = n == 0 ? fcntl(u->root, F_DUPFD_CLOEXEC, 3) : open_below(u->root, folder, O_PATH | O_DIRECTORY);
	if (fd < 0 && errno == ENOENT && (u->w->ask->flags & REQ_PARENTS)) {
		int r = make_parents(u->root, folder);

		if (r < 0)
			return r;
		fd = open_below(u->root, folder, O_PATH | O_DIRECTORY);
	}
	if (fd < 0)
		return -errno;
	if (u->dir >= 0)
		(void)close(u->dir);
	u->dir = fd;
	memcpy(u->dir_path, folder, n + 1);
	return 0;
}

/* Remove what is in the way, unless it is a folder. 0 or -errno. */
static int clear(int at, const char *name)
{
	if (unlinkat(at, name, 0) == 0 || errno == ENOENT)
		return 0;
	return errno == EPERM ? -EISDIR : -errno;
}

static int remember_mode(struct unpacker *u, mode_t mode)
{
	size_t n = strlen(u->d.entry.path) + 1;
	char *path;

	if (u->late_n == u->late_cap) {
		size_t cap = u->late_cap == 0 ? 64 : 2 * u->late_cap;
		struct late *v = cap > LATE_MAX ? NULL : reallocarray(u->late, cap, sizeof(*v));

		if (v == NULL)
			return -ENOMEM;
		u->late = v;
		u->late_cap = cap;
	}
	path = n > LATE_BYTES - u->late_bytes ? NULL : strdup(u->d.entry.path);
	if (path == NULL)
		return -ENOMEM;
	u->late_bytes += n;
	u->late[u->late_n++] = (struct late){path, mode};
	return 0;
}

static int make_folder(struct unpacker *u, int at, const char *name)
{
	mode_t mode = u->d.entry.mode;
	struct stat st;
	int r = 0;

	if (mkdirat(at, name, 0700) < 0) {
		if (errno != EEXIST || fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		if (!S_ISDIR(st.st_mode)) {
			if (unlinkat(at, name, 0) < 0 || mkdirat(at, name, 0700) < 0)
				return -errno;
		}
	}
	if ((mode & 0700) != 0700)
		r = remember_mode(u, mode);
	/* by name, and safe: AT_SYMLINK_NOFOLLOW is not to be had on older kernels, so by descriptor */
	if (r == 0) {
		_cleanup_close_ int fd = open_below(at, name, O_RDONLY | O_DIRECTORY);

		if (fd < 0 || fchmod(fd, mode | 0700) < 0)
			r = errno == EPERM ? 0 : -errno; /* someone else's folder keeps its mode */
	}
	return r;
}

/* PATH as the folder everything goes into. */
static int open_root(struct unpacker *u)
{
	struct worker *w = u->w;
	bool packed = u->d.entry.path[0] == '\0';
	int r = w->ask->flags & REQ_PARENTS ? worker_parents(w->path) : 0;

	if (r == 0 && (packed || (w->ask->flags & REQ_PARENTS)))
		r = mkdir(w->path, packed ? u->d.entry.mode | 0700u : 0755) < 0 && errno != EEXIST ? -errno : 0;
	if (r < 0)
		return fail(u, -r, "unpack");
	u->root = open(w->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return u->root < 0 ? fail(u, errno, "unpack") : 0;
}

/* The whole stream is one file or link: it becomes PATH itself. */
static int open_parent(struct unpacker *u, const char **ret_name)
{
	char *slash = strrchr(u->w->path, '/');
	int r = u->w->ask->flags & REQ_PARENTS ? worker_parents(u->w->path) : 0;
	char folder[4096];

	if (r < 0)
		return r;
	if (slash[1] == '\0')
		return -EISDIR;
	memcpy(folder, u->w->path, (size_t)(slash - u->w->path) + 1);
	folder[slash - u->w->path + 1] = '\0';
	if (u->dir >= 0)
		return -EINVAL;
	u->dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	*ret_name = slash + 1;
	return u->dir < 0 ? -errno : 0;
}

static int make_file(struct unpacker *u, const char *name)
{
	int r = clear(u->dir, name);

	if (r < 0)
		return r;
	u->file = openat(u->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	u->off = 0;
	return u->file < 0 ? -errno : 0;
}

static int make_link(struct unpacker *u, const char *name)
{
	int r = clear(u->dir, name);

	if (r < 0)
		return r;
	return symlinkat(u->d.entry.target, u->dir, name) < 0 ? -errno : 0;
}

static int on_entry(struct unpacker *u)
{
	const struct pack_entry *e = &u->d.entry;
	const char *name = NULL;
	int r;

	if (u->root < 0 && (e->path[0] != '\0' || e->type == PACK_DIR)) {
		r = open_root(u);
		if (r < 0 || e->path[0] == '\0')
			return r;
	}
	if (e->path[0] != '\0')
		r = enter_folder(u, &name);
	else
		r = e->type == PACK_DIR || u->root >= 0 ? -EINVAL : open_parent(u, &name);
	if (r == 0 && e->type == PACK_DIR)
		r = make_folder(u, u->dir, name);
	else if (r == 0)
		r = e->type == PACK_FILE ? make_file(u, name) : make_link(u, name);
	return r < 0 ? fail(u, -r, "unpack") : 0;
}

static int on_data(struct unpacker *u, const uint8_t *p, uint64_t n)
{
	while (n > 0) {
		ssize_t done = pwrite(u->file, p, (size_t)n, u->off);

		if (done < 0)
			return fail(u, errno, "write");
		p += done;
		n -= (uint64_t)done;
		u->off += done;
	}
	return 0;
}

static int on_file_end(struct unpacker *u)
{
	struct timespec t[2] = {{.tv_nsec = UTIME_OMIT},
				{.tv_sec = (time_t)(u->d.entry.mtime_ns / 1000000000u),
				 .tv_nsec = (long)(u->d.entry.mtime_ns % 1000000000u)}};

	if (ftruncate(u->file, u->off) < 0 || fchmod(u->file, u->d.entry.mode) < 0 || futimens(u->file, t) < 0)
		return fail(u, errno, "write");
	(void)close(steal_fd(&u->file));
	return 0;
}

static int set_late_modes(struct unpacker *u)
{
	while (u->late_n > 0) { /* the innermost first */
		struct late *l = &u->late[--u->late_n];
		_cleanup_close_ int fd = open_below(u->root, l->path, O_RDONLY | O_DIRECTORY);

		if (fd < 0 || fchmod(fd, l->mode) < 0)
			return worker_fail(u->w, errno, "setting the mode of", l->path);
		free(l->path);
	}
	return 0;
}

/* All events of the bytes handed in. 1: the stream is complete, 0: more input, -errno. */
static int drain(struct unpacker *u)
{
	for (;;) {
		const uint8_t *p;
		uint64_t n;
		int r, ev = pack_next(&u->d, &p, &n);

		switch (ev) {
		case PACK_EV_MORE: return 0;
		case PACK_EV_ENTRY: r = on_entry(u); break;
		case PACK_EV_DATA: r = on_data(u, p, n); break;
		case PACK_EV_HOLE:
			u->off += (off_t)n; /* the sum is bounded by the announced size */
			r = 0;
			break;
		case PACK_EV_FILE_END: r = on_file_end(u); break;
		case PACK_EV_END: return 1;
		default: return worker_fail(u->w, EPROTO, "not a pack stream", NULL);
		}
		if (r < 0)
			return r;
	}
}

int pack_in_run(struct worker *w)
{
	static struct unpacker u;
	static uint8_t piece[PIECE];
	int r = 0;

	u.w = w;
	u.root = u.dir = u.file = -1;
	pack_decoder_init(&u.d);
	for (;;) {
		ssize_t n = read(STDIN_FILENO, piece, sizeof(piece));

		if (n < 0)
			return worker_fail(w, errno, "receiving", NULL);
		if (n == 0)
			break;
		if (r == 1 || pack_feed(&u.d, piece, (size_t)n) < 0)
			return worker_fail(w, EPROTO, "not a pack stream", NULL);
		r = drain(&u);
		if (r < 0)
			return r;
	}
	if (r != 1 || !pack_complete(&u.d))
		return worker_fail(w, EPROTO, "the pack stream does not end where it should", NULL);
	return set_late_modes(&u);
}

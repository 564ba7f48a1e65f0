#include "guest/worker.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "wire/pack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

/*
 * PACK_OUT: PATH as a pack stream. Below PATH no symbolic link is followed; sockets, fifos and
 * devices are left out; holes stay holes. A file that changes while it is read yields at most the size it
 * was announced with. Depth is bounded by the format, one descriptor for each level.
 */

enum { FLUSH_AT = 64 * 1024, PIECE = 64 * 1024 };

struct packer {
	struct worker *w;
	struct buf out;
	struct pack_entry e; /* e.path is the path of what is being packed */
};

static int flush(struct packer *p, size_t at)
{
	int r = 0;

	if (p->out.len >= at && p->out.len > 0) {
		r = worker_out(p->w, buf_head(&p->out), p->out.len);
		buf_consume(&p->out, p->out.len);
	}
	return r;
}

static int put_entry(struct packer *p, enum pack_type type, const struct stat *st)
{
	int r;

	p->e.type = type;
	p->e.mode = (uint16_t)(st->st_mode & 0777);
	p->e.size = type == PACK_FILE ? (uint64_t)st->st_size : 0;
	p->e.mtime_ns = 0;
	if (st->st_mtim.tv_sec >= 0 && st->st_mtim.tv_sec < INT64_MAX / 1000000000 - 1)
		p->e.mtime_ns = (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec;
	if (type != PACK_LINK)
		p->e.target[0] = '\0';
	r = pack_put_entry(&p->out, &p->e);
	return r < 0 ? worker_fail(p->w, -r, "cannot pack", p->e.path) : flush(p, FLUSH_AT);
}

/* Bytes [off, end) of fd; stops early when the file got shorter. */
static int put_data(struct packer *p, int fd, off_t off, off_t end)
{
	static uint8_t piece[PIECE];

	while (off < end) {
		ssize_t n = pread(fd, piece, (size_t)MIN(end - off, (off_t)PIECE), off);
		int r;

		if (n < 0)
			return worker_fail(p->w, errno, "read", p->e.path);
		if (n == 0)
			return 0;
		r = pack_put_data(&p->out, piece, (size_t)n);
		if (r < 0)
			return worker_fail(p->w, -r, "cannot pack", p->e.path);
		r = flush(p, FLUSH_AT);
		if (r < 0)
			return r;
		off += n;
	}
	return 0;
}

static int put_contents(struct packer *p, int fd, off_t size)
{
	off_t off = 0;
	int r = 0;

	while (r == 0 && off < size) {
		off_t data = lseek(fd, off, SEEK_DATA), hole;

		if (data < 0) /* ENXIO: nothing but a hole; else no holes are known here */
			data = errno == ENXIO ? size : off;
		data = MIN(data, size);
		if (data > off)
			r = pack_put_hole(&p->out, (uint64_t)(data - off));
		if (r < 0)
			return worker_fail(p->w, -r, "cannot pack", p->e.path);
		if (data == size)
			break;
		hole = lseek(fd, data, SEEK_HOLE);
		if (hole <= data || hole > size)
			hole = size;
		r = put_data(p, fd, data, hole);
		off = hole;
	}
	if (r == 0)
		r = pack_put_file_end(&p->out);
	return r;
}

static int put_file(struct packer *p, int at, const char *name, int flags)
{
	_cleanup_close_ int fd = openat(at, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return worker_fail(p->w, errno, "read", p->e.path);
	if (!S_ISREG(st.st_mode)) /* it was swapped for something else */
		return worker_fail(p->w, EINVAL, "not a regular file", p->e.path);
	r = put_entry(p, PACK_FILE, &st);
	return r < 0 ? r : put_contents(p, fd, st.st_size);
}

static int put_link(struct packer *p, int at, const char *name, const struct stat *st)
{
	ssize_t n = readlinkat(at, name, p->e.target, sizeof(p->e.target));

	if (n <= 0 || (size_t)n >= sizeof(p->e.target))
		return worker_fail(p->w, n < 0 ? errno : ENAMETOOLONG, "read the link", p->e.path);
	p->e.target[n] = '\0';
	return put_entry(p, PACK_LINK, st);
}

static int put_folder(struct packer *p, int fd, size_t depth);

/* The entry `name` of folder `at`; len is the length of the folder's own path. */
static int put_name(struct packer *p, int at, const char *name, size_t len, size_t depth)
{
	size_t n = strlen(name), sep = len > 0;
	struct stat st;
	int r = 0;

	if (len + sep + n >= sizeof(p->e.path))
		return worker_fail(p->w, ENAMETOOLONG, "cannot pack below", p->e.path);
	if (sep)
		p->e.path[len] = '/';
	memcpy(p->e.path + len + sep, name, n + 1);
	if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno != ENOENT)
			r = worker_fail(p->w, errno, "stat", p->e.path);
	} else if (S_ISREG(st.st_mode)) {
		r = put_file(p, at, name, O_NOFOLLOW);
	} else if (S_ISLNK(st.st_mode)) {
		r = put_link(p, at, name, &st);
	} else if (S_ISDIR(st.st_mode)) {
		int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		r = fd < 0 ? worker_fail(p->w, errno, "open the folder", p->e.path) : put_folder(p, fd, depth + 1);
	}
	p->e.path[len] = '\0';
	return r;
}

/* Takes fd. */
static int put_folder(struct packer *p, int fd, size_t depth)
{
	size_t len = strlen(p->e.path);
	DIR *dir = fdopendir(fd);
	struct dirent *e;
	struct stat st;
	int r;

	if (dir == NULL || fstat(fd, &st) < 0 || depth > PACK_DEPTH_MAX) {
		r = worker_fail(p->w, depth > PACK_DEPTH_MAX ? ELOOP : errno, "open the folder", p->e.path);
		if (dir == NULL)
			(void)close(fd);
		else
			(void)closedir(dir);
		return r;
	}
	r = put_entry(p, PACK_DIR, &st);
	while (r == 0 && (e = readdir(dir)) != NULL) {
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = put_name(p, fd, e->d_name, len, depth);
	}
	(void)closedir(dir);
	return r;
}

static int put_root(struct packer *p)
{
	struct worker *w = p->w;
	bool nofollow = w->ask->flags & REQ_NOFOLLOW;
	struct stat st;
	int fd;

	if (fstatat(AT_FDCWD, w->path, &st, nofollow ? AT_SYMLINK_NOFOLLOW : 0) < 0)
		return worker_fail(w, errno, "read", w->path);
	if (S_ISREG(st.st_mode))
		return put_file(p, AT_FDCWD, w->path, nofollow ? O_NOFOLLOW : 0);
	if (S_ISLNK(st.st_mode))
		return put_link(p, AT_FDCWD, w->path, &st);
	if (!S_ISDIR(st.st_mode))
		return worker_fail(w, EINVAL, "not a file or folder", w->path);
	fd = open(w->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? worker_fail(w, errno, "read", w->path) : put_folder(p, fd, 0);
}

int pack_out_run(struct worker *w)
{
	static struct packer p;
	struct rlimit files;
	int r;

	/* one descriptor for each level of folders */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	p.w = w;
	buf_init(&p.out, 2 * (FLUSH_AT + PIECE));
	r = pack_put_start(&p.out);
	if (r == 0)
		r = put_root(&p);
	if (r == 0)
		r = pack_put_end(&p.out);
	if (r == 0)
		r = flush(&p, 1);
	buf_done(&p.out);
	return r;
}

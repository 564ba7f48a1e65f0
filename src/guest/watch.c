#include "guest/worker.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "guest/entry.h"
#include "guest/report.h"
#include "guest/watch_set.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * WATCH: inotify(7) made into records, recursive on request. Runs until its pipe breaks or it is killed.
 *
 * New folders. Between mkdir and our watch on it a program may already have filled the folder. So the
 * watch is added first and then the folder is listed: its entries are reported as created. An entry made in
 * between is both listed and reported by the watch; listed names are remembered until the queue
 * has been read past that point, and the event that repeats one is dropped.
 *
 * Moves. A move within the tree is a pair of events with one cookie, adjacent in practice. The first
 * half waits for its partner, for PAIR_MS at most; without one it is a removal (or a creation, for
 * the second half). Watches of a moved folder keep their number, only their paths change.
 *
 * Past the bounds of watch_set.h the client is told to list again (OVERFLOW), as it is when the kernel's queue overflows.
 */

enum { PAIR_MS = 20, DEPTH_MAX = 256 };

static const uint32_t mask = IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB |
			     IN_DELETE_SELF | IN_EXCL_UNLINK;

struct half { /* the first half of a move */
	uint32_t cookie; /* 0 = none */
	bool folder;
	char path[4096];
};

struct watch {
	struct worker *w;
	int fd;
	bool folder; /* PATH is one */
	dev_t dev;   /* which */
	ino_t ino;
	bool recursive;
	struct watch_set set;
	struct half half;
	struct entry_names names; /* REQ_DETAIL */
	uint32_t last_kind; /* to merge runs of WRITE events */
	char last[4096];
};

static void put_entry(struct watch *s, struct msg_writer *rec, const char *name);

static int emit(struct watch *s, enum watch_event kind, const char *name, const char *target)
{
	struct buf b;
	struct msg_writer rec = {.b = &b};
	int r;

	s->last_kind = kind;
	(void)snprintf(s->last, sizeof(s->last), "%s", name);
	buf_init(&b, MSG_RECORD_MAX);
	msg_u64(&rec, F_EVENT, kind);
	msg_str(&rec, F_NAME, name);
	if (target != NULL)
		msg_str(&rec, F_TARGET, target);
	else if (s->w->ask->flags & REQ_DETAIL && (kind == WATCH_CREATE || kind == WATCH_WRITE || kind == WATCH_CHMOD))
		put_entry(s, &rec, name);
	r = worker_record(s->w, &rec);
	buf_done(&b);
	return r;
}

static int overflow(struct watch *s)
{
	return emit(s, WATCH_OVERFLOW, "", NULL);
}

/* a/b into dst[4096]. False when it does not fit. */
static bool join(char *dst, const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);

	if (n + 1 + m >= 4096)
		return false;
	if (n > 0) {
		memmove(dst, a, n);
		dst[n++] = '/';
	}
	memmove(dst + n, b, m + 1);
	return true;
}

/* PATH, to open what is below it; not held open: a removed folder tells so when its last user lets go. */
static int open_top(const struct watch *s)
{
	int fd = open(s->w->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (fd >= 0 && (fstat(fd, &st) < 0 || st.st_dev != s->dev || st.st_ino != s->ino)) {
		(void)close(fd); /* another one by now */
		errno = ENOENT;
		return -1;
	}
	return fd;
}

static int open_place(const struct watch *s, const char *path)
{
	_cleanup_close_ int top = open_top(s);

	return top < 0 ? -1 : openat(top, path[0] == '\0' ? "." : path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* What the file is by now: it may be gone, or another one. */
static void put_entry(struct watch *s, struct msg_writer *rec, const char *name)
{
	_cleanup_close_ int top = s->folder ? open_top(s) : -1;
	int at = s->folder ? top : AT_FDCWD;
	const char *path = s->folder ? name : s->w->path;
	struct stat st;

	if (*path == '\0' || (s->folder && top < 0) || fstatat(at, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	entry_put(s->w, &s->names, rec, at, path, name, &st);
}

static int add_folder(struct watch *s, const char *path, bool report, int depth);

static int list_folder(struct watch *s, int fd, const char *path, bool report, int depth)
{
	DIR *dir = fdopendir(fd);
	struct dirent *e;
	int r = 0;

	if (dir == NULL) {
		(void)close(fd);
		return 0;
	}
	while (r == 0 && (e = readdir(dir)) != NULL) {
		char full[4096];
		struct stat st;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || !join(full, path, e->d_name) ||
		    fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (report) {
			watch_remember(&s->set, full);
			r = emit(s, WATCH_CREATE, full, NULL);
			/* what was written before we watched makes no event any more */
			if (r == 0 && S_ISREG(st.st_mode) && st.st_size > 0)
				r = emit(s, WATCH_WRITE, full, NULL);
		}
		if (r == 0 && S_ISDIR(st.st_mode))
			r = add_folder(s, full, report, depth + 1);
	}
	(void)closedir(dir);
	return r;
}

/* Watch a folder and what is below it. report: its entries are news. 0 or -errno (reported). */
static int add_folder(struct watch *s, const char *path, bool report, int depth)
{
	char proc[32];
	int fd = open_place(s, path), wd, r;

	if (fd < 0)
		return 0; /* gone, or not ours to read */
	/* by descriptor, so that a folder swapped for a link is not followed */
	(void)snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	wd = inotify_add_watch(s->fd, proc, mask | IN_ONLYDIR);
	if (wd >= 0 && watch_by_number(&s->set, wd) != NULL) { /* met twice: listed and reported */
		(void)close(fd);
		return 0;
	}
	if (wd < 0 || depth > DEPTH_MAX || !watch_add(&s->set, wd, path)) {
		(void)close(fd);
		return overflow(s);
	}
	if (!s->recursive) {
		(void)close(fd);
		return 0;
	}
	r = list_folder(s, fd, path, report, depth);
	return r;
}

static int on_created(struct watch *s, const char *path, bool folder)
{
	int r = watch_take(&s->set, path) ? 0 : emit(s, WATCH_CREATE, path, NULL);

	if (r == 0 && folder && s->recursive)
		r = add_folder(s, path, true, 0);
	return r;
}

static int flush_half(struct watch *s)
{
	if (s->half.cookie == 0)
		return 0;
	s->half.cookie = 0;
	if (s->half.folder)
		watch_move(&s->set, s->fd, s->half.path, NULL);
	return emit(s, WATCH_REMOVE, s->half.path, NULL);
}

static int on_moved_to(struct watch *s, const struct inotify_event *e, const char *path)
{
	bool folder = e->mask & IN_ISDIR;
	int r;

	if (s->half.cookie == 0 || s->half.cookie != e->cookie) {
		r = flush_half(s);
		return r < 0 ? r : on_created(s, path, folder);
	}
	s->half.cookie = 0;
	if (folder)
		watch_move(&s->set, s->fd, s->half.path, path);
	if (watch_take(&s->set, path)) /* the new name was listed before the event was read */
		return emit(s, WATCH_REMOVE, s->half.path, NULL);
	return emit(s, WATCH_RENAME, s->half.path, path);
}

static int on_named(struct watch *s, const struct inotify_event *e, const char *path)
{
	if (e->mask & IN_CREATE)
		return on_created(s, path, e->mask & IN_ISDIR);
	if (e->mask & IN_MODIFY) {
		if (s->last_kind == WATCH_WRITE && strcmp(s->last, path) == 0)
			return 0;
		return emit(s, WATCH_WRITE, path, NULL);
	}
	if (e->mask & IN_ATTRIB)
		return emit(s, WATCH_CHMOD, path, NULL);
	if (e->mask & IN_DELETE) {
		(void)watch_take(&s->set, path);
		return emit(s, WATCH_REMOVE, path, NULL);
	}
	if (e->mask & IN_MOVED_FROM) {
		(void)watch_take(&s->set, path);
		s->half.cookie = e->cookie;
		s->half.folder = e->mask & IN_ISDIR;
		memcpy(s->half.path, path, strlen(path) + 1);
	}
	return 0;
}

/* Events of the watched folder or file itself. 1: it is gone and so is the watch. */
static int on_self(struct watch *s, const struct inotify_event *e, struct watched *p)
{
	bool root = p->path[0] == '\0';
	int r = 0;

	if (e->mask & IN_IGNORED) {
		watched_drop(p);
		return root;
	}
	if (!root)
		return 0; /* its own folder reports the same by name */
	if (e->mask & IN_MODIFY)
		r = s->last_kind == WATCH_WRITE && s->last[0] == '\0' ? 0 : emit(s, WATCH_WRITE, "", NULL);
	else if (e->mask & IN_ATTRIB)
		r = emit(s, WATCH_CHMOD, "", NULL);
	else if (e->mask & IN_DELETE_SELF)
		r = emit(s, WATCH_REMOVE, "", NULL);
	return r;
}

static int on_event(struct watch *s, const struct inotify_event *e)
{
	struct watched *p;
	char path[4096];
	int r = 0;

	if (e->mask & IN_Q_OVERFLOW)
		return overflow(s);
	p = watch_by_number(&s->set, e->wd);
	if (p == NULL)
		return 0;
	if (e->len == 0)
		return on_self(s, e, p);
	if (!join(path, p->path, e->name))
		return 0;
	if (e->mask & IN_MOVED_TO)
		return on_moved_to(s, e, path);
	r = flush_half(s);
	return r < 0 ? r : on_named(s, e, path);
}

static int serve(struct watch *s)
{
	static char events[32 * 1024] __attribute__((aligned(8)));

	for (;;) {
		struct pollfd p[2] = {{.fd = s->fd, .events = POLLIN}, {.fd = STDOUT_FILENO}};
		int ready = poll(p, 2, s->half.cookie != 0 ? PAIR_MS : -1);
		ssize_t n;
		int r = 0;

		if (ready == 0) {
			r = flush_half(s);
			if (r < 0)
				return r;
			continue;
		}
		if (p[1].revents != 0)
			return 0; /* nobody listens any more */
		n = read(s->fd, events, sizeof(events));
		if (n < 0 && errno == EAGAIN)
			continue;
		if (n <= 0)
			return worker_fail(s->w, errno, "watching", NULL);
		for (char *at = events; at < events + n && r == 0;) {
			struct inotify_event e;

			memcpy(&e, at, sizeof(e));
			r = on_event(s, (const struct inotify_event *)(const void *)at);
			at += sizeof(e) + e.len;
		}
		if (r != 0)
			return MIN(r, 0);
		s->last_kind = 0;
		if (poll(p, 1, 0) == 0)
			watch_forget(&s->set);
	}
}

int watch_run(struct worker *w)
{
	static struct watch s;
	struct stat st;
	int wd, r;

	s.w = w;
	s.recursive = w->ask->flags & REQ_RECURSIVE;
	s.fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (s.fd < 0 || stat(w->path, &st) < 0)
		return worker_fail(w, errno, "watch", w->path);
	if (S_ISDIR(st.st_mode)) {
		s.folder = true;
		s.dev = st.st_dev;
		s.ino = st.st_ino;
		r = add_folder(&s, "", false, 0);
		if (r == 0 && s.set.n == 0)
			return worker_fail(w, EACCES, "watch", w->path);
	} else {
		wd = inotify_add_watch(s.fd, w->path, mask);
		if (wd < 0 || !watch_add(&s.set, wd, ""))
			return worker_fail(w, errno, "watch", w->path);
		r = 0;
	}
	if (r < 0)
		return r;
	report_send(w->status, &(struct report){.type = REPORT_READY});
	return serve(&s);
}

#include "base/cleanup.h"
#include "base/num.h"
#include "image/contents.h"
#include "image/store_priv.h"
#include "sys/call.h"
#include "sys/file.h"
#include "sys/ids.h"
#include "sys/loop.h"
#include "sys/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Taking an image in. A forked worker unpacks below tmp/<random>/tree and makes the digest; it
 * reports over a pipe, in messages of one size. The parent only waits, shows progress, and moves
 * the result to its place:
 *
 *   write image.json, sync everything, then under the store's lock one rename, then the name.
 *
 * A death at any point leaves a folder in tmp/ that nobody holds, or an image without a name.
 */

struct image_new {
	int store_fd, fd; /* the store; the folder in tmp/, whose lock fd holds */
	int there_fd;	  /* shared lock of the same image, when it was there already; -1 = it was not */
	char name[STORE_TMP_NAME]; /* of that folder, below the store */
	char digest[IMAGE_DIGEST_LEN + 1];
	struct image_stats st;
	bool kept;
};

struct report {
	enum { REPORT_PROGRESS, REPORT_DONE, REPORT_FAILED } kind;
	struct image_stats st;
	char digest[IMAGE_DIGEST_LEN + 1];
	struct err err;
};

static void tell(void *arg, uint64_t bytes, uint64_t entries)
{
	struct report m = {.kind = REPORT_PROGRESS, .st = {.bytes = bytes, .entries = entries}};

	(void)!file_write_all(*(const int *)arg, &m, sizeof(m));
}

static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* Close every descriptor but these. */
static void keep_only(int *keep, size_t n)
{
	unsigned next = 0;

	qsort(keep, n, sizeof(*keep), by_number);
	for (size_t i = 0; i < n; i++) {
		if ((unsigned)keep[i] > next)
			(void)sys_close_range(next, (unsigned)keep[i] - 1, 0);
		next = (unsigned)keep[i] + 1;
	}
	(void)sys_close_range(next, ~0u, 0);
}

/* lock_fd is kept for the lock alone: what is being made counts as held until the worker is gone
 * too. */
static _Noreturn void worker(int tar_fd, int tree_fd, int out, int lock_fd,
			     const struct image_limits *lim)
{
	struct report m = {.kind = REPORT_DONE};
	struct contents *known = contents_new();
	int keep[] = {tar_fd, tree_fd, out, lock_fd};
	int r;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	keep_only(keep, ARRAY_LEN(keep));
	r = known == NULL || sodium_init() < 0 ? -ENOMEM : intake_jail(tree_fd);
	if (r < 0)
		r = err_set(&m.err, ERR_INTERNAL, -r, "the unpacker's jail: %s", strerror(-r));
	if (r == 0)
		r = intake_unpack(tar_fd, tree_fd, lim, tell, &out, known, &m.st, &m.err);
	if (r == 0)
		r = tree_digest(tree_fd, known, m.digest, &m.err);
	if (r < 0)
		m.kind = REPORT_FAILED;
	_exit(file_write_all(out, &m, sizeof(m)) < 0 ? 1 : 0);
}

/* The worker has read hostile bytes: nothing it says reaches a terminal or a path unchecked. */
static int check_report(struct report *m)
{
	m->digest[IMAGE_DIGEST_LEN] = '\0';
	m->err.msg[sizeof(m->err.msg) - 1] = '\0';
	for (char *c = m->err.msg; *c != '\0'; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	if (m->kind == REPORT_FAILED)
		return m->err.kind > ERR_NONE && m->err.kind < ERR_KIND_COUNT ? 0 : -EPROTO;
	if (m->kind == REPORT_DONE)
		return strlen(m->digest) == IMAGE_DIGEST_LEN &&
			       store_digest_ok(m->digest, IMAGE_DIGEST_LEN)
			   ? 0
			   : -EPROTO;
	return m->kind == REPORT_PROGRESS ? 0 : -EPROTO;
}

/* deadline: of loop_clock_ms, 0 = none. */
static int read_report(int fd, int64_t deadline, struct report *ret)
{
	size_t n = 0;

	while (n < sizeof(*ret)) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int64_t left = deadline == 0 ? -1 : MAX(deadline - (int64_t)loop_clock_ms(), (int64_t)0);
		ssize_t got = poll(&p, 1, (int)MIN(left, (int64_t)INT_MAX));

		if (got == 0 && left <= 0)
			return -ETIMEDOUT;
		if (got > 0)
			got = read(fd, (char *)ret + n, sizeof(*ret) - n);
		else if (got == 0 || errno == EINTR)
			continue;
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return -EPIPE;
		n += (size_t)got;
	}
	return check_report(ret);
}

static int hear(int fd, struct image_new *n, uint64_t time_ms, image_progress fn, void *arg, struct err *e)
{
	int64_t deadline = time_ms == 0 ? 0 : (int64_t)loop_clock_ms() + (int64_t)MIN(time_ms, (uint64_t)INT64_MAX / 2);
	struct report m;

	for (;;) {
		int r = read_report(fd, deadline, &m);

		if (r == -ETIMEDOUT)
			return err_set(e, ERR_LIMITED, ETIMEDOUT, "the stream did not end in time");
		if (r < 0)
			return err_set(e, ERR_INTERNAL, EIO, "the unpacker died");
		switch (m.kind) {
		case REPORT_PROGRESS:
			if (fn != NULL)
				fn(arg, m.st.bytes, m.st.entries);
			break;
		case REPORT_DONE:
			n->st = m.st;
			memcpy(n->digest, m.digest, sizeof(n->digest));
			return 0;
		case REPORT_FAILED:
			if (e != NULL)
				*e = m.err;
			return m.err.errnum > 0 ? -m.err.errnum : -EINVAL;
		}
	}
}

static int run_worker(int tar_fd, struct image_new *n, const struct image_limits *lim,
		      image_progress fn, void *arg, struct err *e)
{
	_cleanup_close_ int in = -1, out = -1, tree_fd = -1;
	int p[2], r, status;
	pid_t pid;

	if (mkdirat(n->fd, "tree", 0700) < 0)
		return err_set(e, ERR_INTERNAL, errno, "image store: %s", strerror(errno));
	tree_fd = openat(n->fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (tree_fd < 0 || pipe2(p, O_CLOEXEC) < 0)
		return err_set(e, ERR_INTERNAL, errno, "image store: %s", strerror(errno));
	in = p[0];
	out = p[1];
	(void)ids_host_root(); /* looked up once, while it can be: the worker can read no /proc */
	pid = fork();
	if (pid == 0)
		worker(tar_fd, tree_fd, out, n->fd, lim);
	if (pid < 0)
		return err_set(e, ERR_INTERNAL, errno, "starting the unpacker: %s",
			       strerror(errno));
	(void)close(steal_fd(&out));
	r = hear(in, n, lim->time_ms, fn, arg, e);
	if (r < 0)
		(void)kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return r;
}

int image_take_in(int tar_fd, const struct image_limits *lim, image_progress fn, void *arg,
		  struct image_new **ret, struct err *e)
{
	struct image_new *n = calloc(1, sizeof(*n));
	int r;

	if (n == NULL)
		return err_no_memory(e);
	n->fd = n->there_fd = -1;
	n->store_fd = r = store_open(e);
	if (r >= 0) {
		store_sweep(n->store_fd);
		r = store_tmp(n->store_fd, n->name, &n->fd, e);
	}
	if (r >= 0)
		r = run_worker(tar_fd, n, lim, fn, arg, e);
	if (r < 0) {
		image_new_free(n);
		return r;
	}
	*ret = n;
	return 0;
}

const struct image_stats *image_new_stats(const struct image_new *n) { return &n->st; }

/* By one rename. An image of that digest that is there already is the same one, and stays. */
static int place(struct image_new *n, struct err *e)
{
	char dst[IMAGE_DIGEST_LEN + 16];
	_cleanup_close_ int lock = store_lock(n->store_fd, e), folder = -1;

	if (lock < 0)
		return lock;
	(void)snprintf(dst, sizeof(dst), "sha256/%s", n->digest);
	/* held until it has its name: a removal in between would take it */
	n->there_fd = openat(n->store_fd, dst, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (n->there_fd >= 0)
		return flock(n->there_fd, LOCK_SH | LOCK_NB) == 0
			   ? 0
			   : err_set(e, ERR_CONFLICT, EBUSY, "image %.12s is being removed", n->digest);
	/* shared from now on: whoever finds it may run on it */
	if (flock(n->fd, LOCK_SH | LOCK_NB) < 0 || renameat(n->store_fd, n->name, n->store_fd, dst) < 0)
		return err_set(e, ERR_INTERNAL, errno, "image store: %s", strerror(errno));
	n->kept = true;
	folder = openat(n->store_fd, "sha256", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder >= 0)
		(void)fsync(folder);
	return 0;
}

int image_commit(struct image_new *n, const struct image_meta *m, const char *name,
		 char digest[IMAGE_DIGEST_LEN + 1], struct err *e)
{
	char base[IMAGE_NAME_MAX + 1], tag[IMAGE_NAME_MAX + 1];
	int r = name == NULL ? 0 : image_parse_name(name, base, tag, e);

	if (r == 0)
		r = info_write(n->fd, m, &n->st, n->digest, e);
	/* a power cut must not leave an image whose files are empty */
	if (r == 0 && syncfs(n->fd) < 0)
		r = err_set(e, ERR_INTERNAL, errno, "image store: %s", strerror(errno));
	if (r == 0)
		r = place(n, e);
	if (r == 0 && name != NULL)
		r = image_tag(n->digest, name, e);
	if (r == 0)
		memcpy(digest, n->digest, sizeof(n->digest));
	return r;
}

void image_new_free(struct image_new *n)
{
	if (n == NULL)
		return;
	if (n->fd >= 0 && !n->kept)
		(void)!tree_remove(n->store_fd, n->name);
	if (n->fd >= 0)
		(void)close(n->fd);
	if (n->there_fd >= 0)
		(void)close(n->there_fd);
	if (n->store_fd >= 0)
		(void)close(n->store_fd);
	free(n);
}

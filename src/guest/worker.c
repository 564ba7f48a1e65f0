#include "guest/worker.h"

#include "base/num.h"
#include "guest/report.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

/* Runs as the user of the request, over the user's own files: whatever it meets there can hurt this
 * one request. Memory is bounded by each operation; time by the host's RESET. */

static const struct {
	int (*run)(struct worker *w);
	bool path; /* PATH is required and absolute */
} ops[] = {
	[REQ_STAT] = {fileop_stat, true},	[REQ_LIST] = {fileop_list, true},
	[REQ_READ] = {fileop_read, true},	[REQ_WRITE] = {fileop_write, true},
	[REQ_MKDIR] = {fileop_mkdir, true},	[REQ_MOVE] = {fileop_move, true},
	[REQ_REMOVE] = {fileop_remove, true},	[REQ_WATCH] = {watch_run, true},
	[REQ_PACK_IN] = {pack_in_run, true},	[REQ_PACK_OUT] = {pack_out_run, true},
	[REQ_METRICS] = {metrics_run, false},
};

bool worker_has(enum req_kind kind)
{
	return (size_t)kind < ARRAY_LEN(ops) && ops[kind].run != NULL;
}

int worker_fail(const struct worker *w, int err, const char *what, const char *name)
{
	report_error(w->status, err, what, name);
	return -err;
}

int worker_out(const struct worker *w, const void *p, size_t n)
{
	const uint8_t *b = p;

	while (n > 0) {
		ssize_t done = write(STDOUT_FILENO, b, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return worker_fail(w, errno, "sending", NULL);
		b += done;
		n -= (size_t)done;
	}
	return 0;
}

int worker_record(const struct worker *w, struct msg_writer *rec)
{
	struct buf out;
	int r = rec->err;

	buf_init(&out, MSG_RECORD_MAX + 4);
	if (r == 0)
		r = record_put(&out, rec->b);
	buf_consume(rec->b, rec->b->len);
	rec->err = 0;
	r = r < 0 ? worker_fail(w, -r, "making a record", NULL) : worker_out(w, buf_head(&out), out.len);
	buf_done(&out);
	return r;
}

int worker_parents(char *path)
{
	for (char *s = path + 1; *s != '\0'; s++) {
		int r;

		if (*s != '/')
			continue;
		*s = '\0';
		r = mkdir(path, 0755) < 0 && errno != EEXIST ? -errno : 0;
		/* an existing folder may be on a read-only part, which is not an error yet */
		if (r == -EROFS && access(path, F_OK) == 0)
			r = 0;
		*s = '/';
		if (r < 0)
			return r;
	}
	return 0;
}

int worker_run(const struct ask *q, const struct user *u, int status_fd)
{
	static struct worker w; /* large, and there is one per process */

	w.ask = q;
	w.user = u;
	w.status = status_fd;
	if (ops[q->kind].path && (ask_copy(&q->path, w.path, sizeof(w.path)) < 0 || w.path[0] != '/')) {
		(void)worker_fail(&w, EINVAL, "not an absolute path", w.path);
		return 1;
	}
	return ops[q->kind].run(&w) < 0 ? 1 : 0;
}

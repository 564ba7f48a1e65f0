#include "guest/probe.h"

#include "base/cleanup.h"
#include "guest/launch.h"
#include "guest/report.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

/*
 * PROBE in PID 1. It comes before every other request, so no process but ours exists and PID 1 may do it
 * in one go: start the measured command (launch_first), measure itself meanwhile, collect, answer. The
 * child's bytes are our own program's; should it fail, the request fails, and with it the start.
 */

enum { CHILD_MS = 5000 };

/* Read the child's structure and the end of its pipe. 0 or -errno. */
static int collect(int fd, struct probe_command *c)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	uint8_t *at = (uint8_t *)c;
	size_t n = 0;

	while (n < sizeof(*c)) {
		ssize_t got;

		if (poll(&p, 1, CHILD_MS) == 0)
			return -ETIMEDOUT;
		got = read(fd, at + n, sizeof(*c) - n);
		if (got < 0 && errno != EINTR)
			return -errno;
		if (got == 0)
			return -EIO;
		n += got > 0 ? (size_t)got : 0;
	}
	return 0;
}

static int measure(struct agent *a, struct job *j, const struct ask *q, int outside_fd, struct probe *p)
{
	_cleanup_close_ int out = -1, out_far = -1, status = -1, status_far = -1;
	struct child c = {.ask = q, .rules = &a->rules, .null_fd = a->null_fd, .tty = -1};
	struct report rep = {.type = 0};
	int pair[2], r;
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	out = pair[0];
	out_far = pair[1];
	if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	status = pair[0];
	status_far = pair[1];
	c.std[0] = outside_fd;
	c.std[1] = out_far;
	c.std[2] = -1;
	c.status = status_far;
	pid = launch_first(a, &c);
	if (pid < 0)
		return pid;
	(void)close(steal_fd(&out_far));
	(void)close(steal_fd(&status_far));
	*p = (struct probe){.magic = PROBE_MAGIC, .version = PROBE_VERSION};
	probe_task(&p->init, outside_fd);
	probe_sandbox(p);
	r = collect(out, &p->command);
	if (r < 0)
		(void)kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (r < 0 && report_read(status, &rep) > 0 && rep.type == REPORT_ERROR) {
		job_end_error(j, rep.err, rep.text);
		return r;
	}
	return r;
}

void probe_start(struct agent *a, struct job *j, const struct ask *q, const int *fds)
{
	static struct probe p; /* large, and asked for once */
	int outside_fd = (q->flags & REQ_FD_OUTSIDE) != 0 ? fds[0] : -1, r;

	if (a->had_child || a->probed) {
		job_end_error(j, EBUSY, "too late to measure the walls");
	} else {
		a->probed = true;
		r = measure(a, j, q, outside_fd, &p);
		if (r < 0)
			job_end_error(j, -r, "measuring the walls");
		else
			peer_send(&a->peer, FRAME_DATA, j->id, CHAN_OUT, &p, sizeof(p));
		if (r == 0)
			job_end_done(j);
	}
	if (outside_fd >= 0)
		(void)close(outside_fd);
}

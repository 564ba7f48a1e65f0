#include "guest/probe.h"

#include "base/cleanup.h"
#include "guest/launch.h"
#include "guest/report.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>

/*
 * PROBE in PID 1. It comes before every other request, so no process but ours exists and PID 1 may
 * do it in one go: start the measured process (launch_first), which like a first command borrows
 * PID 1's memory and leaves its findings there, reap it, measure PID 1, answer. Should the process
 * fail on its way, as a command would for the same user, the request fails with the same words, and
 * with it the start.
 */

static void measure_command(void *to) { probe_command((struct probe_command *)to); }

static int measure(struct agent *a, struct job *j, const struct ask *q, int outside_fd,
		   struct probe *p)
{
	_cleanup_close_ int status = -1, status_far = -1;
	struct child c = {.ask = q,
			  .rules = &a->rules,
			  .null_fd = a->null_fd,
			  .tty = -1,
			  .std = {outside_fd, -1, -1},
			  .measure = measure_command,
			  .measure_to = &p->command};
	struct report rep = {.type = 0};
	int pair[2], st = -1;
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	status = pair[0];
	status_far = pair[1];
	c.status = status_far;
	*p = (struct probe){.magic = PROBE_MAGIC, .version = PROBE_VERSION};
	pid = launch_first(a, &c);
	if (pid < 0)
		return pid;
	while (waitpid(pid, &st, 0) < 0 && errno == EINTR)
		;
	if (report_read(status, &rep) > 0 && rep.type == REPORT_ERROR) {
		job_end_error(j, rep.err, rep.text);
		return -EIO;
	}
	if (st != 0)
		return -EIO;
	probe_task(&p->init, outside_fd);
	probe_sandbox(p);
	return 0;
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
			peer_send(&a->peer, FRAME_DATA, j->id, CHAN_OUT, &p, probe_size(&p));
		if (r == 0)
			job_end_done(j);
	}
	if (outside_fd >= 0)
		(void)close(outside_fd);
}

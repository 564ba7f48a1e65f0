/*
 * The agent's whole input side on arbitrary bytes of a host: frames, requests, flow control, the table of
 * streams. Processes are replaced by descriptors: programs read from a pipe nobody drains until it is full,
 * and write zeros for ever. What the agent answers must be well-formed and within every bound.
 */
#include "base/num.h"
#include "guest/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

#define MUST(c)                                                                                    \
	do {                                                                                       \
		if (!(c))                                                                          \
			abort();                                                                   \
	} while (0)

static int stdin_pipe[2] = {-1, -1}, zeros = -1;

static void start(struct agent *a, struct job *j, const struct ask *q, int *fds)
{
	(void)a;
	MUST(ask_fds(q) == 0 || fds[0] >= 0);
	if (q->kind == REQ_EXEC) {
		char **argv = ask_args(q, F_ARG, 0), **env = ask_args(q, F_ENV, 6);

		MUST(argv != NULL && env != NULL);
		MUST(argv[q->argc] == NULL && env[q->envc] == NULL);
		free(argv);
		free(env);
	}
	if (q->kind != REQ_EXEC && q->kind != REQ_READ && q->kind != REQ_WRITE) {
		job_end_done(j);
		return;
	}
	j->pid = j->cmd = 77;
	j->in.fd = fcntl(stdin_pipe[1], F_DUPFD_CLOEXEC, 3);
	j->out[0].fd = fcntl(zeros, F_DUPFD_CLOEXEC, 3);
	j->out[0].open = true;
	MUST(j->in.fd >= 0 && j->out[0].fd >= 0);
}

static void got_signal(struct agent *a, struct job *j, int sig)
{
	(void)a;
	MUST(sig >= 1 && sig <= 64);
	job_end_wait(j, sig, 1, 2, 3);
	j->out[0].drain = 100;
}

static void resize(struct agent *a, struct job *j, uint16_t rows, uint16_t cols)
{
	(void)a;
	(void)j;
	(void)rows;
	(void)cols;
}

static void reset(struct agent *a, struct job *j)
{
	(void)a;
	job_end_error(j, ECANCELED, "reset");
	j->out[0].drain = 0;
}

static const struct agent_ops ops = {.start = start, .signal = got_signal, .resize = resize, .reset = reset};

static void check(const struct agent *a)
{
	MUST(a->jobs_n <= AGENT_JOBS_MAX && a->peer.out.len <= PEER_OUT_MAX && a->peer.nfds <= PEER_FDS_MAX);
	MUST(a->peer.open.len <= FRAME_OPEN_MAX);
	for (uint32_t i = 0; i < a->jobs_n; i++) {
		const struct job *j = a->jobs[i];

		MUST(j->in.pend.len <= FRAME_WINDOW && j->in.win.left <= FRAME_WINDOW);
		MUST(j->out[0].credit <= FRAME_CREDIT_MAX && j->out[1].credit <= FRAME_CREDIT_MAX);
		for (uint32_t k = i + 1; k < a->jobs_n; k++)
			MUST(j->id != a->jobs[k]->id);
	}
}

/* The host reads some of what was sent. */
static void take_output(struct agent *a)
{
	struct frame f;
	int used;

	while ((used = frame_decode(buf_head(&a->peer.out), a->peer.out.len, FRAME_TO_HOST, &f)) > 0)
		buf_consume(&a->peer.out, (size_t)used);
	MUST(used == 0 && a->peer.out.len == 0);
}

static int turn(struct agent *a, const uint8_t *p, size_t n)
{
	int r;

	if (buf_put(&a->peer.in, p, n) < 0)
		return -1;
	r = agent_dispatch(a);
	check(a);
	for (uint32_t i = 0; i < a->jobs_n; i++) {
		job_write_in(&a->peer, a->jobs[i]);
		job_read_out(&a->peer, a->jobs[i], CHAN_OUT);
		job_read_out(&a->peer, a->jobs[i], CHAN_ERR);
	}
	agent_settle(a);
	check(a);
	return r;
}

static void setup(void)
{
	if (zeros >= 0)
		return;
	zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	MUST(zeros >= 0 && pipe2(stdin_pipe, O_CLOEXEC | O_NONBLOCK) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static uint8_t drained[65536];
	struct agent a = {.ops = &ops, .leaf_fd = -1, .spent_leaf_fd = -1, .null_fd = -1, .oom_fd = -1};
	size_t step;

	if (n < 2)
		return 0;
	setup();
	peer_init(&a.peer, -1);
	a.peer.greeted = p[0] & 1;
	step = p[0] & 2 ? 1 + p[1] : 4096;
	for (p += 2, n -= 2; n > 0;) {
		size_t now = MIN(n, step);

		if (turn(&a, p, now) < 0)
			break;
		p += now;
		n -= now;
		if (a.peer.out.len > PEER_OUT_SOFT)
			take_output(&a);
	}
	if (!a.peer.broken)
		take_output(&a);
	for (uint32_t i = 0; i < a.jobs_n; i++)
		job_free(a.jobs[i]);
	peer_done(&a.peer);
	while (read(stdin_pipe[0], drained, sizeof(drained)) > 0)
		continue;
	return 0;
}

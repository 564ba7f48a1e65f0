#include "guest/launch.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "guest/birth.h"
#include "guest/control.h"
#include "guest/probe.h"
#include "guest/starter.h"
#include "guest/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>

/*
 * Theory of operation. PID 1 makes the pipes or the terminal, clones the child (into the exec's
 * cgroup when the host gave one), and keeps only its own ends. Three shapes:
 *
 *   command, with a leaf or alone in the sandbox:  PID 1 -> command
 *   command, without:                              PID 1 -> guard (subreaper) -> command
 *   file request, metrics, watch:                  PID 1 -> worker
 *
 * What the child tells through its status pipe is read when it ends, so that a normal start costs no
 * wake-up; a guard or a watcher speaks earlier and its pipe is polled, and so is that of a command which the starter
 * starts, until its pid has come.
 *
 * A leaf that cannot be entered fails the exec: running it elsewhere would put it out of reach of the kill
 * its owner relies on.
 */

enum { TERM_GRACE_MS = 300 };

struct pipes {
	int ours[3], theirs[3]; /* by channel */
	int status[2];
	int tty;
};

static void shut(int *fd)
{
	if (*fd >= 0)
		(void)close(steal_fd(fd));
}

static void close_pipes(struct pipes *p)
{
	for (int i = 0; i < 3; i++) {
		shut(&p->ours[i]);
		shut(&p->theirs[i]);
	}
	shut(&p->status[0]);
	shut(&p->status[1]);
	shut(&p->tty);
}

static bool set_nonblock(int fd)
{
	return fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

static bool make_pipe(struct pipes *p, uint8_t chan)
{
	int fd[2], mine = chan == CHAN_IN ? 1 : 0;

	if (pipe2(fd, O_CLOEXEC) < 0)
		return false;
	p->ours[chan] = fd[mine];
	p->theirs[chan] = fd[1 - mine];
	return set_nonblock(fd[mine]);
}

static bool make_tty(struct pipes *p, const struct ask *q)
{
	struct winsize ws = {.ws_row = ask_has(q, F_ROWS) ? q->rows : 24, .ws_col = ask_has(q, F_COLS) ? q->cols : 80};
	int unlock = 0;

	p->tty = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	if (p->tty < 0 || ioctl(p->tty, TIOCSPTLCK, &unlock) < 0 || ioctl(p->tty, TIOCSWINSZ, &ws) < 0)
		return false;
	p->ours[CHAN_IN] = fcntl(p->tty, F_DUPFD_CLOEXEC, 3);
	p->ours[CHAN_OUT] = fcntl(p->tty, F_DUPFD_CLOEXEC, 3);
	return p->ours[CHAN_IN] >= 0 && p->ours[CHAN_OUT] >= 0;
}

static bool make_channels(struct pipes *p, const struct ask *q)
{
	bool exec = q->kind == REQ_EXEC;

	if (pipe2(p->status, O_CLOEXEC) < 0 || !set_nonblock(p->status[0]))
		return false;
	if (exec && (q->flags & REQ_TTY))
		return make_tty(p, q);
	if (exec && (q->flags & REQ_FD_STDIO))
		return true;
	if ((exec && (q->flags & REQ_STDIN)) || q->kind == REQ_WRITE || q->kind == REQ_PACK_IN) {
		if (!make_pipe(p, CHAN_IN))
			return false;
	}
	return make_pipe(p, CHAN_OUT) && (!exec || make_pipe(p, CHAN_ERR));
}

static void fork_child(struct agent *a, struct job *j, const struct child *c, int leaf_fd)
{
	bool alone = !a->had_child && j->kind == REQ_EXEC && !j->guarded;
	pid_t pid;

	if (starter_give(a, j, c, leaf_fd))
		return;
	pid = birth(a, alone ? NULL : j, c, leaf_fd);
	a->had_child = true;
	if (pid < 0) {
		j->guarded = false;
		job_end_error(j, -pid, birth_failed(pid, leaf_fd >= 0));
		return;
	}
	j->copied = !alone;
	j->pid = pid;
	if (!j->guarded)
		j->cmd = pid;
}

static void adopt(struct job *j, struct pipes *p)
{
	j->medium = p->tty >= 0 ? JOB_TTY : JOB_PIPES;
	j->in.fd = steal_fd(&p->ours[CHAN_IN]);
	for (uint8_t chan = CHAN_OUT; chan <= (uint8_t)CHAN_ERR; chan++) {
		j->out[chan - 1].fd = steal_fd(&p->ours[chan]);
		j->out[chan - 1].open = j->out[chan - 1].fd >= 0;
	}
	j->status_fd = steal_fd(&p->status[0]);
	j->watch_status = j->guarded || j->given || j->kind == REQ_WATCH;
}

/* measure: the two descriptors of REQ_FD_MEASURE, NULL = not asked for. */
static void start_child(struct agent *a, struct job *j, const struct ask *q, const int *std, int leaf_fd,
			const int *measure)
{
	struct pipes p = {.ours = {-1, -1, -1}, .theirs = {-1, -1, -1}, .status = {-1, -1}, .tty = -1};
	struct child c = {.ask = q, .rules = &a->rules, .null_fd = a->null_fd, .conn_fd = -1};

	if (!make_channels(&p, q)) {
		job_end_error(j, errno, p.tty < 0 && (q->flags & REQ_TTY) ? "no terminal to be had" : "making pipes");
		close_pipes(&p);
		return;
	}
	for (int i = 0; i < 3; i++)
		c.std[i] = std[i] >= 0 ? std[i] : p.theirs[i];
	c.status = p.status[1];
	c.tty = p.tty;
	if (measure != NULL) {
		c.sock_fd = measure[0];
		c.outside_fd = measure[1];
		c.measure = probe_prepare(&q->expect, c.outside_fd);
		if (!c.measure) {
			job_end_error(j, EINVAL, "this agent was not asked to measure, or what to expect is malformed");
			close_pipes(&p);
			return;
		}
	}
	fork_child(a, j, &c, leaf_fd);
	if (!j->ended) {
		adopt(j, &p);
		if (j->cmd != 0 && j->kind == REQ_EXEC)
			peer_send_u32(&a->peer, FRAME_START, j->id, 0, (uint32_t)j->cmd);
	}
	close_pipes(&p);
}

static const char *check_exec(const struct ask *q)
{
	if (q->argc == 0)
		return "no program given";
	if ((q->flags & REQ_TTY) && (q->flags & REQ_FD_STDIO))
		return "a terminal and descriptors exclude each other";
	return NULL;
}

static void start_exec(struct agent *a, struct job *j, const struct ask *q, const int *fds)
{
	const char *bad = check_exec(q);
	int std[3] = {-1, -1, -1}, measure[2] = {-1, -1}, leaf_fd = -1;
	bool measured = (q->flags & REQ_FD_MEASURE) != 0;
	uint32_t i = 0;

	if (q->flags & REQ_FD_STDIO) {
		for (int k = q->flags & REQ_STDIN ? 0 : 1; k < 3; k++)
			std[k] = fds[i++];
	}
	if (q->flags & REQ_FD_LEAF)
		leaf_fd = fds[i++];
	else
		leaf_fd = steal_fd(&a->leaf_fd);
	for (int k = 0; measured && k < 2; k++)
		measure[k] = fds[i++];
	j->leaf = leaf_fd >= 0;
	j->guarded = !j->leaf && !(q->flags & REQ_SOLE);
	if (bad != NULL)
		job_end_error(j, EINVAL, bad);
	else if (q->argc > MSG_ARGS_MAX || q->envc > MSG_ARGS_MAX)
		job_end_error(j, E2BIG, "too many arguments or variables");
	else
		start_child(a, j, q, std, leaf_fd, measured ? measure : NULL);
	for (int k = 0; k < 3; k++)
		shut(&std[k]);
	for (int k = 0; k < 2; k++)
		shut(&measure[k]);
	/* Letting go of a leaf's mount makes the kernel wait for an RCU grace period: not now, while the
	 * command runs and may end at once, but when the next one has started. */
	shut(&a->spent_leaf_fd);
	if (j->given)
		shut(&leaf_fd); /* the starter has it */
	a->spent_leaf_fd = leaf_fd;
}

static void start(struct agent *a, struct job *j, const struct ask *q, int *fds)
{
	static const int none[3] = {-1, -1, -1};

	if (q->kind == REQ_EXEC)
		start_exec(a, j, q, fds);
	else if (worker_has(q->kind))
		start_child(a, j, q, none, -1, NULL);
	else
		control_start(a, j, q);
}

static void send_signal(struct agent *a, struct job *j, int sig)
{
	(void)a;
	if (j->kind != REQ_EXEC)
		return;
	if (j->cmd == 0)
		j->early_signals |= UINT64_C(1) << (sig - 1);
	else if (kill(-j->cmd, sig) < 0 && errno == ESRCH && !j->ended)
		(void)kill(j->cmd, sig); /* it has not made its own session yet */
}

static void resize(struct agent *a, struct job *j, uint16_t rows, uint16_t cols)
{
	struct winsize ws = {.ws_row = rows, .ws_col = cols};

	(void)a;
	if (j->medium == JOB_TTY && j->out[0].fd >= 0)
		(void)ioctl(j->out[0].fd, TIOCSWINSZ, &ws);
}

static void reset(struct agent *a, struct job *j)
{
	if (j->id == a->shutdown_id)
		return; /* there is no way back */
	if (j->given && j->pid == 0)
		launch_status(a, j); /* it may be through with this one, and have another's in hand */
	if (j->ended)
		return;
	if (j->given && j->pid == 0) { /* its pid, or the end of its status pipe, comes yet */
		if (!j->reset)
			starter_kill(a);
		j->reset = true;
		return;
	}
	if (j->medium == JOB_SOCKET || j->pid == 0) {
		j->connecting = false;
		for (int i = 0; i < 2; i++)
			shut(&j->out[i].fd);
		job_end_error(j, ECANCELED, "reset");
		return;
	}
	j->reset = true;
	if (j->kind != REQ_EXEC) {
		/* a writer removes its unfinished file */
		(void)kill(j->pid, j->kind == REQ_WRITE && j->kill_at_ns == 0 ? SIGTERM : SIGKILL);
		j->kill_at_ns = agent_now() + TERM_GRACE_MS * NS_PER_MS;
	} else if (j->leaf) {
		(void)kill(-j->pid, SIGKILL);
		(void)kill(j->pid, SIGKILL);
	} else {
		j->sweeping = true;
	}
}

const struct agent_ops launch_ops = {.start = start, .signal = send_signal, .resize = resize, .reset = reset};

#include "guest/loop.h"

#include "base/num.h"
#include "guest/control.h"
#include "guest/launch.h"
#include "guest/starter.h"
#include "guest/sudo.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Theory of operation. One thread, one poll(2) for each turn. The set is built anew each turn: a channel
 * is in it only when it could move bytes now (it has credit, the queue to the host has room), so a
 * stalled stream costs nothing and holds up nobody. Each ready channel moves one piece of at most 64 KiB for
 * each turn, and the turn starts with another stream each time.
 *
 * poll and not epoll: most sandboxes run one command and have three descriptors; registering would cost
 * more system calls than it saves.
 */

enum what { STREAM, SIGNALS, CALLS, CALLER, STATUS, IN, OUT, ERR };
enum { SET_MAX = 3 + 4 * AGENT_JOBS_MAX + 2 * SUDO_JOBS_MAX, FLUSH_MS = 200, REAP_MAX = 256 };

struct set {
	struct pollfd fd[SET_MAX];
	struct {
		struct job *job;
		enum what what;
	} of[SET_MAX];
	nfds_t n;
};

static void add(struct set *s, int fd, int events, struct job *j, enum what what)
{
	if (fd < 0)
		return;
	s->fd[s->n] = (struct pollfd){.fd = fd, .events = (short)events};
	s->of[s->n].job = j;
	s->of[s->n].what = what;
	s->n++;
}

static bool out_ready(const struct agent *a, const struct job *j, int i)
{
	return j->out[i].credit > 0 && !j->out[i].parked && !j->connecting && a->peer.out.len <= PEER_OUT_SOFT;
}

static void add_job(struct set *s, const struct agent *a, struct job *j)
{
	bool in_waits = j->in.pend.len > 0 || j->in.eof || j->connecting;

	if (j->watch_status)
		add(s, j->status_fd, POLLIN, j, STATUS);
	/* a pipe is watched all the time, for the moment its reader goes */
	if (in_waits || j->medium == JOB_PIPES)
		add(s, j->in.fd, in_waits ? POLLOUT : 0, j, IN);
	if (out_ready(a, j, 0))
		add(s, j->out[0].fd, POLLIN, j, OUT);
	if (out_ready(a, j, 1))
		add(s, j->out[1].fd, POLLIN, j, ERR);
}

static void add_sudo(struct set *s, const struct sudo *k)
{
	if (sudo_rests(k) == 0)
		add(s, k->listen_fd, POLLIN, NULL, CALLS);
	for (uint32_t i = 0; i < k->n; i++) {
		struct job *j = k->jobs[i];

		add(s, j->status_fd, POLLIN, j, STATUS);
		add(s, j->conn_fd, j->ready ? POLLIN : 0, j, CALLER);
	}
}

static void build(struct set *s, struct agent *a, int sig_fd)
{
	int events = a->peer.out.len <= PEER_OUT_PAUSE ? POLLIN : 0;

	s->n = 0;
	add(s, a->peer.fd, events | (a->peer.out.len > 0 ? POLLOUT : 0), NULL, STREAM);
	add(s, sig_fd, POLLIN, NULL, SIGNALS);
	if (a->jobs_n > 0)
		a->turn = (a->turn + 1) % a->jobs_n;
	for (uint32_t i = 0; i < a->jobs_n; i++)
		add_job(s, a, a->jobs[(a->turn + i) % a->jobs_n]);
	if (a->sudo.listen_fd >= 0)
		add_sudo(s, &a->sudo);
	for (struct job *j = a->guards; j != NULL && s->n < SET_MAX; j = j->next)
		add(s, j->status_fd, POLLIN, j, STATUS);
}

/* Without a child of PID 1 there is no process at all: nothing is left to sweep. */
static void end_shutdown(struct agent *a)
{
	for (uint32_t i = 0; i < a->jobs_n; i++) {
		a->jobs[i]->sweeping = false;
		if (a->jobs[i]->id == a->shutdown_id)
			job_end_done(a->jobs[i]);
	}
}

/* True when it stopped before the last: a program that makes orphans fast must not hold up streams. */
static bool reap(struct agent *a)
{
	starter_look(a);
	for (int i = 0; i < REAP_MAX; i++) {
		struct rusage ru;
		int st;
		pid_t pid = wait4(-1, &st, WNOHANG, &ru);

		if (pid > 0) {
			launch_reaped(a, pid, st, &ru);
			continue;
		}
		if (pid < 0 && errno == ECHILD && a->shutdown_id != 0)
			end_shutdown(a);
		return false;
	}
	return true;
}

static void serve(struct agent *a, struct job *j, enum what what, int revents)
{
	switch (what) {
	case STATUS: launch_status(a, j); break;
	case IN:
		if (j->connecting)
			control_connected(a, j);
		else if ((revents & (POLLERR | POLLHUP)) && j->medium == JOB_PIPES)
			job_in_gone(&a->peer, j, EPIPE);
		else
			job_write_in(&a->peer, j);
		break;
	case OUT: job_read_out(&a->peer, j, CHAN_OUT); break;
	case ERR: job_read_out(&a->peer, j, CHAN_ERR); break;
	case CALLER: sudo_heard(a, j); break;
	case STREAM:
	case CALLS:
	case SIGNALS: break;
	}
}

/* Jobs are only freed by reap (guards) and agent_settle, neither of which runs in the loop below. */
static bool serve_set(struct set *s, struct agent *a)
{
	bool child = false;

	for (nfds_t i = 0; i < s->n; i++) {
		if (s->fd[i].revents == 0)
			continue;
		if (s->of[i].what == SIGNALS) {
			struct signalfd_siginfo si;

			child = read(s->fd[i].fd, &si, sizeof(si)) > 0 || child;
		} else if (s->of[i].what == CALLS) {
			sudo_accept(a);
		} else if (s->of[i].job != NULL) {
			serve(a, s->of[i].job, s->of[i].what, s->fd[i].revents);
		}
	}
	return child;
}

static int shutdown_wait(struct agent *a, int wait)
{
	uint64_t now;

	if (a->shutdown_id == 0)
		return wait;
	now = agent_now();
	if (now >= a->shutdown_ns) {
		launch_kill_all(SIGKILL);
		return 10; /* again, for what a fork has just made */
	}
	return (int)((a->shutdown_ns - now) / 1000000u) + 1;
}

/* rest: 0 = none. */
static int soonest(int wait, int rest)
{
	return rest > 0 && (wait < 0 || rest < wait) ? rest : wait;
}

/* The last RESULT should arrive; a host that does not read does not hold up the end. */
static void last_words(struct agent *a)
{
	uint64_t until = agent_now() + FLUSH_MS * UINT64_C(1000000);

	while (a->peer.out.len > 0 && peer_flush(&a->peer) == 0 && agent_now() < until) {
		struct pollfd p = {.fd = a->peer.fd, .events = POLLOUT};

		(void)poll(&p, 1, a->peer.out.len > 0 ? FLUSH_MS : 0);
	}
}

/* One turn's input. 0 or -errno. */
static int take_input(struct agent *a)
{
	int r = a->peer.out.len <= PEER_OUT_PAUSE ? peer_read(&a->peer) : 0;

	if (r >= 0)
		r = agent_dispatch(a);
	return r;
}

int loop_run(struct agent *a, int sig_fd)
{
	static struct set set;
	int r = take_input(a), wait;
	bool more = false;

	while (r >= 0) {
		wait = shutdown_wait(a, soonest(launch_tick(a), sudo_rests(&a->sudo)));
		if (a->shutdown_id != 0)
			more = reap(a); /* there may be no child at all whose end would wake us */
		agent_settle(a);
		sudo_settle(a);
		if (a->peer.broken || peer_flush(&a->peer) < 0)
			return -EPIPE;
		if (a->shutdown_id != 0 && agent_job(a, a->shutdown_id) == NULL)
			break;
		if (a->jobs_n == 0)
			peer_idle(&a->peer);
		if (a->peer.out.len == 0)
			starter_idle(a);
		if (more || (a->peer.held && a->peer.out.len <= PEER_OUT_PAUSE))
			wait = 0; /* there is work that no descriptor tells of */
		build(&set, a, sig_fd);
		if (poll(set.fd, set.n, wait) < 0) {
			if (errno != EINTR)
				return -errno;
			continue;
		}
		if (set.fd[0].revents & (POLLHUP | POLLERR | POLLNVAL))
			return -EPIPE;
		if (serve_set(&set, a) || more)
			more = reap(a);
		r = set.fd[0].revents & POLLIN || a->peer.in.len > 0 ? take_input(a) : 0;
	}
	if (r < 0)
		return r;
	last_words(a);
	return 0;
}

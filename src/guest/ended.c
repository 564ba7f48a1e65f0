#include "guest/launch.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "guest/report.h"
#include "guest/starter.h"
#include "guest/sweep.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

/*
 * What comes back of what launch.c started: the words of status pipes, ends of children, deadlines. Status
 * pipes are written by our own children, who have become the sandbox's user: a report is bounded
 * (guest/report.h), and says nothing about other jobs.
 */

enum { SWEEP_MS = 1, PARK_MS = 20, HANG_UP_MS = 100, GUARD_MS = 10000, CALM_ROUNDS = 200 };
enum { TTY_REST = 64 * 1024 }; /* bytes, more than the kernel keeps for the reader of a terminal */

/* What the starter was given has begun. */
static void born(struct job *j)
{
	j->pid = j->cmd;
	j->watch_status = false; /* the rest is read when it ends */
	if (j->reset)
		(void)kill(j->pid, SIGKILL);
}

static void on_report(struct agent *a, struct job *j, const struct report *r)
{
	switch ((enum report_type)r->type) {
	case REPORT_ERROR:
		job_end_error(j, r->err, r->text);
		break;
	case REPORT_PID:
		if (j->cmd != 0 || !(j->guarded || j->given))
			break;
		j->cmd = r->pid;
		if (j->given)
			born(j);
		if (j->ended) /* it could not run, and said so before the guard got here */
			break;
		if (!j->inside)
			peer_send_u32(&a->peer, FRAME_START, j->id, 0, (uint32_t)j->cmd);
		for (int sig = 1; j->early_signals != 0 && sig <= 64; sig++) {
			if (j->early_signals & (UINT64_C(1) << (sig - 1)))
				a->ops->signal(a, j, sig);
		}
		j->early_signals = 0;
		break;
	case REPORT_EXIT:
		if (j->guarded)
			job_end_wait(j, r->wait_status, r->utime_us, r->stime_us, r->maxrss_kib);
		break;
	case REPORT_READY:
		if (j->inside && j->conn_fd >= 0)
			j->sweep_ns = 0;
		j->ready = true;
		if (!j->inside && !j->ended)
			peer_send_u32(&a->peer, FRAME_START, j->id, 0, (uint32_t)j->pid);
		break;
	}
}

void launch_status(struct agent *a, struct job *j)
{
	struct report r;
	int got = 0;

	while (j->status_fd >= 0 && (got = report_read(j->status_fd, &r)) > 0)
		on_report(a, j, &r);
	if (got < 0)
		(void)close(steal_fd(&j->status_fd));
	if (got < 0 && j->given && j->pid == 0 && !j->ended)
		job_end_error(j, j->reset ? ECANCELED : EAGAIN, j->reset ? "reset" : "what was to start it was killed");
}

static bool is_unborn(const struct job *j) { return j->given && j->pid == 0 && !j->ended; }

/* True when one is left whose pid has not come. */
static bool hear_unborn(struct agent *a)
{
	bool ret = false;

	for (uint32_t i = 0; i < a->jobs_n; i++) {
		if (is_unborn(a->jobs[i]))
			launch_status(a, a->jobs[i]);
		ret = ret || is_unborn(a->jobs[i]);
	}
	return ret;
}

static uint64_t usec(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * 1000000u + (uint64_t)tv->tv_usec;
}

static struct job *take_reaped(struct agent *a, pid_t pid)
{
	for (uint32_t i = 0; i < a->jobs_n; i++) {
		if (a->jobs[i]->pid == pid)
			return a->jobs[i];
	}
	for (uint32_t i = 0; i < a->sudo.n; i++) {
		if (a->sudo.jobs[i]->pid == pid)
			return a->sudo.jobs[i];
	}
	for (struct job **at = &a->guards; *at != NULL; at = &(*at)->next) {
		struct job *j = *at;

		if (j->pid == pid) {
			*at = j->next;
			return j;
		}
	}
	return NULL;
}

/* A guard that did not end by itself was killed by what it guards: everything that was below it
 * is now an unknown child of PID 1. */
static void guard_died(struct agent *a, struct job *j)
{
	job_end_wait(j, SIGKILL, 0, 0, 0);
	j->sweeping = true;
	if (j->closed) { /* the sweep needs a holder; it goes when the sweep is done */
		j->next = a->guards;
		a->guards = j;
	}
}

void launch_reaped(struct agent *a, pid_t pid, int st, const struct rusage *ru)
{
	struct job *j = take_reaped(a, pid);

	if (j == NULL && starter_ended(a, pid))
		return;
	if (j == NULL) { /* one that the starter made may have told its pid only now */
		(void)hear_unborn(a);
		j = take_reaped(a, pid);
	}
	if (j == NULL)
		return; /* an orphan of the sandbox */
	launch_status(a, j);
	j->pid = 0;
	if (j->guarded) {
		if (!WIFEXITED(st) && !j->reset)
			guard_died(a, j);
		else if (WIFEXITED(st))
			j->sweeping = false; /* it ended because nothing is left below it */
		if (j->closed && !j->sweeping)
			job_free(j);
		else
			job_end_wait(j, SIGKILL, 0, 0, 0);
	} else if (j->kind == REQ_EXEC) {
		if (j->copied && j->leaf)
			starter_want(a);
		job_end_wait(j, st, usec(&ru->ru_utime), usec(&ru->ru_stime), (uint64_t)ru->ru_maxrss);
	} else if (WIFEXITED(st) && WEXITSTATUS(st) == 0) {
		job_end_done(j);
	} else if (j->reset && j->kind == REQ_WATCH) {
		job_end_done(j);
	} else if (j->reset) {
		job_end_error(j, ECANCELED, "reset");
	} else {
		job_end_error(j, EIO, "the file worker was killed");
	}
}

void launch_kill_all(int sig)
{
	(void)kill(-1, sig);
}

/* ---- time ---- */

static size_t known_children(const struct agent *a, pid_t *v, size_t max)
{
	size_t n = 0;

	for (uint32_t i = 0; i < a->jobs_n && n < max; i++) {
		if (a->jobs[i]->pid > 0)
			v[n++] = a->jobs[i]->pid;
	}
	for (uint32_t i = 0; i < a->sudo.n && n < max; i++) {
		if (a->sudo.jobs[i]->pid > 0)
			v[n++] = a->sudo.jobs[i]->pid;
	}
	for (const struct job *j = a->guards; j != NULL && n < max; j = j->next) {
		if (j->pid > 0)
			v[n++] = j->pid;
	}
	if (a->starter.pid > 0 && n < max)
		v[n++] = a->starter.pid;
	return n;
}

/* A guard that has not said whom it guards may just be cloning it, and would leave it behind. */
static bool may_clone(const struct job *j)
{
	return j->guarded && j->pid > 0 && j->cmd == 0 && j->status_fd >= 0 && agent_now() < j->start_ns + GUARD_MS * NS_PER_MS;
}

static void sweep_job(struct agent *a, struct job *j)
{
	static pid_t known[4 * AGENT_JOBS_MAX];
	struct sweep s = {.known = known};
	enum sweep_found found;

	if (hear_unborn(a))
		return; /* it would look like an orphan */
	s.known_n = known_children(a, known, ARRAY_LEN(known));
	if (j->guarded && j->pid > 0)
		s.guard = j->pid;
	else
		s.orphans = true;
	if (!j->guarded)
		s.tree = j->pid;
	if (s.known_n == ARRAY_LEN(known))
		s.orphans = false; /* cannot tell any more; the sandbox's own end still gets them */
	found = sweep_round(&s);
	if (found == SWEEP_LEFT || may_clone(j)) {
		j->calm = 0;
		return;
	}
	j->calm++;
	if (s.guard != 0) { /* its own end proves that nothing is left below it, unless somebody holds it */
		(void)kill(s.guard, j->calm < CALM_ROUNDS ? SIGCONT : SIGKILL);
		j->calm %= CALM_ROUNDS; /* as orphans they are looked for anew */
		return;
	}
	if (found == SWEEP_QUIET && j->calm < CALM_ROUNDS)
		return;
	j->sweeping = false;
	if (j->pid > 0)
		(void)kill(j->pid, SIGKILL);
}

static int sooner(int wait, int ms)
{
	return wait < 0 || ms < wait ? ms : wait;
}

/* True when `at` has passed; else *wait is shortened to reach it. */
static bool is_due(uint64_t at, int *wait)
{
	uint64_t now = agent_now();

	if (now < at)
		*wait = sooner(*wait, (int)((at - now) / NS_PER_MS) + 1);
	return now >= at;
}

/* Of a job from inside. */
static void start_sweep(struct job *j)
{
	if (!j->ready)
		job_end_error(j, ETIMEDOUT, "no request came in time");
	j->sweep_ns = 0;
	j->reset = j->sweeping = true;
}

static void tick_job(struct agent *a, struct job *j, int *wait)
{
	struct job_out *tty = &j->out[CHAN_OUT - 1];

	if (j->sweep_ns != 0 && j->pid > 0 && is_due(j->sweep_ns, wait))
		start_sweep(j);
	if (j->sweeping)
		sweep_job(a, j);
	if (j->sweeping)
		*wait = sooner(*wait, SWEEP_MS);
	if (tty->parked && tty->look_ns == 0)
		tty->look_ns = agent_now() + PARK_MS * NS_PER_MS;
	if (tty->parked && is_due(tty->look_ns, wait)) {
		tty->parked = false;
		tty->look_ns = 0;
	}
	/* background jobs may hold the terminal for ever; what the command wrote is there by then, but may not have
	 * been read, when the host takes nothing or we were not run */
	if (j->ended && j->medium == JOB_TTY && tty->fd >= 0 && tty->credit > 0) {
		if (j->hang_up_ns == 0)
			j->hang_up_ns = agent_now() + HANG_UP_MS * NS_PER_MS;
		if (is_due(j->hang_up_ns, wait)) {
			if (tty->drain < 0)
				tty->drain = TTY_REST;
			job_read_out(&a->peer, j, CHAN_OUT);
		}
	}
	if (j->kill_at_ns != 0 && j->pid != 0 && is_due(j->kill_at_ns, wait)) {
		(void)kill(j->pid, SIGKILL);
		j->kill_at_ns = 0;
	}
}

int launch_tick(struct agent *a)
{
	int wait = -1;

	for (uint32_t i = 0; i < a->jobs_n; i++)
		tick_job(a, a->jobs[i], &wait);
	for (uint32_t i = 0; i < a->sudo.n; i++)
		tick_job(a, a->sudo.jobs[i], &wait);
	for (struct job **at = &a->guards; *at != NULL;) {
		struct job *j = *at;

		tick_job(a, j, &wait);
		if (!j->sweeping && j->pid == 0) {
			*at = j->next;
			job_free(j);
		} else {
			at = &j->next;
		}
	}
	return wait;
}

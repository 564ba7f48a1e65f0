#include "guest/launch.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "guest/control.h"
#include "guest/probe.h"
#include "guest/report.h"
#include "guest/sweep.h"
#include "guest/worker.h"
#include "sys/clone.h"
#include "sys/raw.h"
#include "wire/agent_abi.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <signal.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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
 * wake-up; a guard or a watcher speaks earlier and its pipe is polled.
 *
 * A leaf that cannot be entered fails the exec: running it elsewhere would put it out of reach of the kill
 * its owner relies on.
 */

enum { TERM_GRACE_MS = 300, SWEEP_MS = 1, PARK_MS = 20, HANG_UP_MS = 100 };
#define OOM_SCORE_TEXT "200"
#define NS_PER_MS      UINT64_C(1000000)

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

/* The sandbox's filter knows clone3's argument only by its address: see wire/agent_abi.h. */
static struct clone_args *clone_args(int leaf_fd)
{
	static struct clone_args *args;

	if (args == NULL) {
		void *at = (void *)AGENT_CLONE3_ARGS;

		if (mmap(at, sizeof(*args), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != at)
			return NULL;
		args = at;
	}
	*args = (struct clone_args){.exit_signal = SIGCHLD};
	if (leaf_fd >= 0) {
		args->flags = CLONE_INTO_CGROUP;
		args->cgroup = (__u64)leaf_fd;
	}
	return args;
}

/*
 * Starting a process in a cgroup takes write access to it. Where the sandbox's root could not be made
 * its owner (an ordinary caller with subordinate ids), it is the caller's, whose id is another one inside.
 */
static void act_as_owner_of(int leaf_fd)
{
	struct stat st;

	if (leaf_fd >= 0 && fstatat(leaf_fd, "cgroup.procs", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid != geteuid())
		(void)setfsuid(st.st_uid); /* fails to, as the clone then does, when the id is not known inside */
}

/* By plain system calls: a child that shares our memory may run. */
static void act_as_self(void)
{
	(void)raw_call(SYS_setfsuid, raw_call(SYS_geteuid, 0, 0, 0, 0, 0), 0, 0, 0, 0);
}

static void exec_now(const void *arg)
{
	act_as_self();
	child_exec(arg);
}

/*
 * The first command of a sandbox that has no other process yet: it borrows PID 1's memory until its
 * execve(2), which spares copying page tables and every page PID 1 writes afterwards. Later ones must
 * not: a process of the same user could stop the borrower, and PID 1 with it.
 */
/* Not zero until a child that borrows our memory without suspending us has given it back. */
static int borrowed;

static void wait_for_memory(void)
{
	while (__atomic_load_n(&borrowed, __ATOMIC_ACQUIRE) != 0)
		(void)raw_call(SYS_futex, (long)&borrowed, FUTEX_WAIT, 1, 0, 0);
}

/*
 * One that measures itself does not suspend us: we measure ourselves meanwhile, and then wait for what
 * CLONE_VFORK would have waited for. The kernel clears `borrowed` at the same place in its execve(2) or end.
 */
static pid_t borrow_child(const struct child *c, int leaf_fd)
{
	static __attribute__((aligned(16))) char stack[32 * 1024];
	struct clone_args *args = clone_args(leaf_fd);

	if (args == NULL)
		return -ENOMEM;
	args->flags |= CLONE_VM | (c->report == NULL ? CLONE_VFORK : CLONE_CHILD_CLEARTID);
	args->child_tid = (__u64)(uintptr_t)&borrowed;
	borrowed = 1;
	args->stack = (__u64)(uintptr_t)stack;
	args->stack_size = sizeof(stack);
	return sys_clone3_call(args, exec_now, c);
}

static pid_t copy_child(const struct child *c, const struct job *j, int leaf_fd)
{
	struct clone_args *args = leaf_fd >= 0 ? clone_args(leaf_fd) : NULL;
	pid_t pid;

	if (leaf_fd >= 0 && args == NULL)
		return -ENOMEM;
	pid = (pid_t)(args != NULL ? syscall(SYS_clone3, args, sizeof(*args)) : syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
	if (pid == 0) {
		act_as_self();
		if (j->kind != REQ_EXEC)
			child_work(c);
		else if (j->guarded)
			child_guard(c);
		else
			child_exec(c);
	}
	return pid < 0 ? -errno : pid;
}

/* Children inherit the score. The agent's own is put back at once; raising needs no privilege and
 * lowering back to where it was does not either. */
static void oom_score(const struct agent *a, const char *score)
{
	if (a->oom_fd >= 0)
		(void)!pwrite(a->oom_fd, score, strlen(score), 0);
}

/* j: NULL for a child that borrows our memory. */
static pid_t clone_child(struct agent *a, const struct job *j, const struct child *c, int leaf_fd)
{
	pid_t pid;

	oom_score(a, OOM_SCORE_TEXT);
	act_as_owner_of(leaf_fd);
	pid = j == NULL ? borrow_child(c, leaf_fd) : copy_child(c, j, leaf_fd);
	if (leaf_fd >= 0)
		act_as_self();
	if (pid > 0 && c->report != NULL) {
		probe_init_half(c->report, c->sock_fd, c->outside_fd, (c->ask->flags & REQ_TRY_NET) != 0);
		if (j == NULL)
			wait_for_memory();
	}
	/* a change of ids, here or in a child that shares our memory, resets both (prctl(2)) */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	oom_score(a, a->oom_score);
	return pid;
}

static void fork_child(struct agent *a, struct job *j, const struct child *c, int leaf_fd)
{
	bool alone = !a->had_child && j->kind == REQ_EXEC && !j->guarded;
	pid_t pid = clone_child(a, alone ? NULL : j, c, leaf_fd);

	a->had_child = true;
	if (pid < 0) {
		j->guarded = false;
		job_end_error(j, -pid,
			      pid == -EAGAIN ? "process limit reached"
			      : leaf_fd >= 0 ? "cannot start a process in the cgroup of this exec"
					     : "cannot start a process");
		return;
	}
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
	j->watch_status = j->guarded || j->kind == REQ_WATCH;
}

/* measure: the two descriptors of REQ_FD_MEASURE, NULL = not asked for. */
static void start_child(struct agent *a, struct job *j, const struct ask *q, const int *std, int leaf_fd,
			const int *measure)
{
	struct pipes p = {.ours = {-1, -1, -1}, .theirs = {-1, -1, -1}, .status = {-1, -1}, .tty = -1};
	struct child c = {.ask = q, .rules = &a->rules, .null_fd = a->null_fd};

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
		c.report = probe_new();
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

/* ---- what comes back ---- */

static void on_report(struct agent *a, struct job *j, const struct report *r)
{
	switch ((enum report_type)r->type) {
	case REPORT_ERROR:
		job_end_error(j, r->err, r->text);
		break;
	case REPORT_PID:
		if (j->cmd != 0 || !j->guarded)
			break;
		j->cmd = r->pid;
		if (j->ended) /* it could not run, and said so before the guard got here */
			break;
		peer_send_u32(&a->peer, FRAME_START, j->id, 0, (uint32_t)j->cmd);
		for (int sig = 1; j->early_signals != 0 && sig <= 64; sig++) {
			if (j->early_signals & (UINT64_C(1) << (sig - 1)))
				(void)kill(j->cmd, sig);
		}
		j->early_signals = 0;
		break;
	case REPORT_EXIT:
		if (j->guarded)
			job_end_wait(j, r->wait_status, r->utime_us, r->stime_us, r->maxrss_kib);
		break;
	case REPORT_READY:
		if (!j->ended)
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
		shut(&j->status_fd);
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
	for (const struct job *j = a->guards; j != NULL && n < max; j = j->next) {
		if (j->pid > 0)
			v[n++] = j->pid;
	}
	return n;
}

static void sweep_job(struct agent *a, struct job *j)
{
	static pid_t known[4 * AGENT_JOBS_MAX];
	struct sweep s = {.known = known, .known_n = known_children(a, known, ARRAY_LEN(known))};

	if (j->guarded && j->pid > 0)
		s.guard = j->pid;
	else
		s.orphans = true;
	if (!j->guarded)
		s.tree = j->pid;
	if (s.known_n == ARRAY_LEN(known))
		s.orphans = false; /* cannot tell any more; the sandbox's own end still gets them */
	if (!sweep_round(&s))
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

static void tick_job(struct agent *a, struct job *j, int *wait)
{
	struct job_out *tty = &j->out[CHAN_OUT - 1];

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
	/* background jobs may hold the terminal for ever; what the command wrote has come by then, unless
	 * the host takes nothing */
	if (j->ended && j->medium == JOB_TTY && tty->fd >= 0 && tty->credit > 0) {
		if (j->hang_up_ns == 0)
			j->hang_up_ns = agent_now() + HANG_UP_MS * NS_PER_MS;
		if (is_due(j->hang_up_ns, wait))
			tty->drain = 0;
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

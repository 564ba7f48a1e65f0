#include "base/cleanup.h"
#include "base/num.h"
#include "spawn/ctl_priv.h"
#include "sys/call.h"
#include "sys/clone.h"
#include "sys/fds.h"
#include "sys/loop.h"
#include "sys/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * The runner: a forked, single-threaded process that holds one sandbox. It only waits: for the
 * caller's death, the caller's requests, the root process's death and the clock. It never reads a
 * byte that came from inside.
 *
 * Whatever ends the sandbox, the way out is one: kill everything, wait until it is gone (the kernel
 * ends a PID namespace before its first process), remove cgroups and record, report.
 */

/* What others left may hold up the watch over ours only so long. */
enum { SWEEP_MS = 50 };

struct run {
	struct sandbox *s;
	int ctl_fd, caller_pidfd;
	int last_fd; /* the caller's, to be let go of after its exit; -1 = none */
	struct runner_end end;
};

static int report(struct run *r, struct ctl_report *m, int fd)
{
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} ctl = {{0}};
	struct iovec iov = {.iov_base = m, .iov_len = sizeof(*m)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd >= 0) {
		ctl.align.cmsg_level = SOL_SOCKET;
		ctl.align.cmsg_type = SCM_RIGHTS;
		ctl.align.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&ctl.align), &fd, sizeof(fd));
		msg.msg_control = &ctl;
		msg.msg_controllen = sizeof(ctl);
	}
	return sendmsg(r->ctl_fd, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* One request of the caller. False when the caller is gone or talks nonsense. */
static bool serve(struct run *r)
{
	struct ctl_request q;
	struct ctl_report a = {.kind = CTL_REPLY};
	_cleanup_close_ int fd = -1;
	ssize_t n = recv(r->ctl_fd, &q, sizeof(q), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n != (ssize_t)sizeof(q))
		return false;
	switch ((enum ctl_op)q.op) {
	case CTL_KILL:
		r->end.killed = true;
		return false;
	case CTL_LEAF:
		a.ret = sandbox_leaf(r->s, q.arg, &fd);
		break;
	case CTL_LEAF_KILL:
		a.ret = cgset_leaf_kill(&r->s->cg, q.arg);
		break;
	case CTL_OOM_COUNT:
		a.val = cgset_oom_kills(&r->s->cg);
		break;
	case CTL_LEAF_DROP:
		a.ret = cgset_leaf_drop(&r->s->cg, q.arg);
		break;
	case CTL_NOW:
		cgset_now(&r->s->cg, &a.now);
		break;
	case CTL_DEADLINE:
		a.ret = sandbox_deadline(r->s, q.ms);
		break;
	case CTL_FREEZE:
		a.ret = cgset_freeze(&r->s->cg, q.arg != 0);
		break;
	default:
		return false;
	}
	return report(r, &a, fd) == 0;
}

/* Until something ends the sandbox. */
static void watch(struct run *r)
{
	enum { ROOT, CALLER, CTL, COUNT };
	struct pollfd p[COUNT] = {[ROOT] = {.fd = r->s->box.root_pidfd, .events = POLLIN},
				  [CALLER] = {.fd = r->caller_pidfd, .events = POLLIN},
				  [CTL] = {.fd = r->ctl_fd, .events = POLLIN}};

	for (;;) {
		int timeout = -1;

		if (r->s->deadline_us != 0) {
			uint64_t now = loop_clock_us();

			if (now >= r->s->deadline_us) {
				r->end.timed_out = true;
				return;
			}
			timeout =
			    (int)MIN((r->s->deadline_us - now + 999) / 1000, (uint64_t)INT32_MAX);
		}
		if (poll(p, COUNT, timeout) < 0 && errno != EINTR)
			return;
		if (p[ROOT].revents != 0 || p[CALLER].revents != 0)
			return;
		if (p[CTL].revents != 0 && !serve(r))
			return;
	}
}

/* Nothing of the caller's may be held open by a process that outlives it. */
static void keep_ours(const struct run *r)
{
	const struct sandbox *s = r->s;
	int keep[] = {r->ctl_fd,      r->caller_pidfd,	s->record.fd,	s->record.dir_fd,
		      s->cg.v2_fd,    s->cg.leaf1_fd,	s->cg.v1_fd[0], s->cg.v1_fd[1],
		      s->cg.v1_fd[2], s->box.root_pidfd, s->image_fd,	r->last_fd};

	fds_keep_only(keep, ARRAY_LEN(keep));
}

/* What a command line or a daemon may have handlers for, or ignore. */
static const int callers_signals[] = {SIGHUP,  SIGINT,	 SIGQUIT, SIGPIPE, SIGTERM,
				      SIGCHLD, SIGWINCH, SIGUSR1, SIGUSR2};

/* The descriptors and signals of a process of its own. */
static void detach(const struct run *r)
{
	struct sigaction dfl = {.sa_handler = SIG_DFL}, old;
	sigset_t none;
	int null_fd;

	(void)prctl(PR_SET_NAME, "brig-runner", 0, 0, 0);
	(void)setsid(); /* the terminal's signals are for the caller */
	keep_ours(r);
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd < 3 && null_fd >= 0; fd++)
		(void)dup2(null_fd, fd);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	for (size_t i = 0; i < ARRAY_LEN(callers_signals); i++)
		if (sigaction(callers_signals[i], NULL, &old) == 0 && old.sa_handler != SIG_DFL)
			(void)sigaction(callers_signals[i], &dfl, NULL);
}

int runner_main(struct sandbox *s, int ctl_fd, int caller_pidfd)
{
	struct run r = {.s = s, .ctl_fd = ctl_fd, .caller_pidfd = caller_pidfd, .last_fd = -1};
	struct ctl_report up = {.kind = CTL_UP}, end = {.kind = CTL_END};

	detach(&r);
	(void)report(&r, &up, -1); /* a caller that is gone shows in the loop */
	(void)record_sweep(SWEEP_MS);
	watch(&r);
	sandbox_kill(s);
	sandbox_wait_gone(s);
	sandbox_account(s, &r.end);
	sandbox_remove(s);
	end.end = r.end;
	(void)report(&r, &end, -1);
	sandbox_done(s);
	return 0;
}

/*
 * In the caller's memory: until the caller's exit only raw calls, on a stack of its own, since both
 * would write the same errno. After it this is the memory's only process.
 */
static void successor(const void *arg)
{
	const struct run *r = (const struct run *)arg;
	struct pollfd p = {.fd = r->caller_pidfd, .events = POLLIN};

	keep_ours(r); /* first: who reads the caller's output waits for its end */
	(void)raw_call(SYS_setsid, 0, 0, 0, 0, 0);
	while (raw_call(SYS_poll, (long)&p, 1, -1, 0, 0) == -EINTR)
		;
	_exit(runner_main(r->s, -1, r->caller_pidfd));
}

int runner_succeed(struct sandbox *s, int caller_pidfd, int last_fd)
{
	static __attribute__((aligned(16))) char stack[64 * 1024];
	static struct run r;
	struct clone_args args = {
	    .flags = CLONE_VM, .stack = (uint64_t)(uintptr_t)stack, .stack_size = sizeof(stack)};
	pid_t pid;

	r = (struct run){.s = s, .ctl_fd = -1, .caller_pidfd = caller_pidfd, .last_fd = last_fd};
	pid = sys_clone3_call(&args, successor, &r);
	return pid < 0 ? pid : 0;
}

#include "guest/starter.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "guest/birth.h"
#include "guest/report.h"
#include "sys/fds.h"

#include <errno.h>
#include <signal.h>
#include <stdnoreturn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

/*
 * Theory of operation. Orders go over a socket pair that nobody else has, one message each: struct order, the request as
 * PID 1 read and checked it, and descriptors. The starter answers a started command with one byte, which PID 1 looks for
 * when it has the next order: until then the starter counts as busy. It holds one order at most.
 *
 * It has PID 1's capabilities and is as little dumpable. It may be stopped or killed by root inside (or, where there
 * is one id only, by the user). Killed, it takes its order with it, whose status pipe ends then; PID 1 makes a new
 * one. Stopped, it is killed. One whose command is stopped before its execve(2) stays busy, and is of no use until then.
 */

enum { MSG_MAX = 64 * 1024, ORDER_FDS = 6 };
enum { LEAF, STATUS, STD, TTY = STD + 3 }; /* places of descriptors */

struct order {
	int8_t at[ORDER_FDS]; /* which of the descriptors that came along; -1 = none */
};

/* ---- the starter's half ---- */

struct place {
	int sock;
	struct child_rules rules;
	int null_fd;
};

static void take_fds(struct msghdr *mh, int fd[ORDER_FDS], const struct order *o)
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(mh);
	size_t n = c != NULL && c->cmsg_type == SCM_RIGHTS ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;

	for (int i = 0; i < ORDER_FDS; i++) {
		fd[i] = -1;
		if (o->at[i] >= 0 && (size_t)o->at[i] < n)
			memcpy(&fd[i], CMSG_DATA(c) + (size_t)o->at[i] * sizeof(int), sizeof(int));
	}
}

/* The length of the request, 0 = PID 1 is gone or this is no order. */
static size_t receive(int sock, void *msg, int fd[ORDER_FDS])
{
	union {
		char b[CMSG_SPACE(ORDER_FDS * sizeof(int))];
		struct cmsghdr align;
	} ctl;
	struct order o;
	struct iovec iov[2] = {{&o, sizeof(o)}, {msg, MSG_MAX}};
	struct msghdr mh = {.msg_iov = iov, .msg_iovlen = 2, .msg_control = ctl.b, .msg_controllen = sizeof(ctl.b)};
	ssize_t n;

	do
		n = recvmsg(sock, &mh, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n <= (ssize_t)sizeof(o) || (mh.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return 0;
	take_fds(&mh, fd, &o);
	return (size_t)n - sizeof(o);
}

static void start(const struct place *at, const struct ask *q, const int fd[ORDER_FDS])
{
	struct child c = {.ask = q, .rules = &at->rules, .null_fd = at->null_fd, .status = fd[STATUS], .tty = fd[TTY],
			  .conn_fd = -1, .tells_pid = true};
	pid_t pid;

	memcpy(c.std, fd + STD, sizeof(c.std));
	pid = birth_sibling(&c, fd[LEAF]);
	if (pid < 0)
		report_error(fd[STATUS], -pid, birth_failed(pid, true), NULL);
}

/* One order; false: end. */
static bool serve(const struct place *at)
{
	static uint8_t msg[MSG_MAX];
	int fd[ORDER_FDS];
	size_t n = receive(at->sock, msg, fd);
	struct ask q;
	bool whole;

	if (n == 0 || ask_parse(msg, n, &q) < 0)
		return false;
	start(at, &q, fd);
	whole = child_gave_back();
	for (int i = STATUS; i < ORDER_FDS; i++)
		if (fd[i] >= 0)
			(void)close(fd[i]);
	if (whole && send(at->sock, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return false;
	(void)close(fd[LEAF]); /* letting go of its mount may wait for an RCU grace period */
	return whole;
}

/* So that the page of what commands allocate is not given back after each: it shares one with these. */
enum { HELD = 900 };
static void *held;

static noreturn void run(const void *arg)
{
	struct place at = *(const struct place *)arg;
	int keep[] = {0, 1, 2, at.sock, at.null_fd};

	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	fds_keep_only(keep, ARRAY_LEN(keep));
	held = malloc(HELD);
	while (serve(&at))
		;
	_exit(0);
}

/* ---- PID 1's half ---- */

void starter_want(struct agent *a) { a->starter.wanted = true; }

static void shut(struct agent *a)
{
	if (a->starter.pid > 0)
		(void)close(a->starter.fd);
	a->starter.pid = 0;
}

void starter_idle(struct agent *a)
{
	struct place at = {.rules = a->rules, .null_fd = a->null_fd};
	pid_t pid;
	int fd[2];

	if (!a->starter.wanted || a->starter.pid != 0 || a->shutdown_id != 0)
		return;
	a->starter.wanted = false;
	if (a->spent_leaf_fd >= 0) /* nobody waits now */
		(void)close(steal_fd(&a->spent_leaf_fd));
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd) < 0)
		return;
	at.sock = fd[1];
	pid = birth_starter(a, run, &at);
	(void)close(fd[1]);
	if (pid < 0) {
		(void)close(fd[0]);
		return;
	}
	a->starter = (struct starter){.pid = pid, .fd = fd[0]};
}

bool starter_ended(struct agent *a, pid_t pid)
{
	if (a->starter.pid != pid)
		return false;
	shut(a);
	return true;
}

void starter_kill(const struct agent *a)
{
	if (a->starter.pid > 0)
		(void)kill(a->starter.pid, SIGKILL);
}

void starter_look(const struct agent *a)
{
	siginfo_t si = {.si_pid = 0};

	if (a->starter.pid > 0 && waitid(P_PID, (id_t)a->starter.pid, &si, WSTOPPED | WNOHANG | WNOWAIT) == 0 && si.si_pid != 0)
		starter_kill(a);
}

static bool is_free(struct agent *a)
{
	char byte;

	if (a->starter.pid == 0)
		return false;
	while (recv(a->starter.fd, &byte, 1, MSG_DONTWAIT) == 1)
		a->starter.busy = false;
	return !a->starter.busy;
}

static bool send_order(int sock, const struct ask *q, const int fd[ORDER_FDS])
{
	union {
		char b[CMSG_SPACE(ORDER_FDS * sizeof(int))];
		struct cmsghdr align;
	} ctl = {.b = {0}};
	struct order o;
	struct iovec iov[2] = {{&o, sizeof(o)}, {(void *)(uintptr_t)q->msg, q->msg_len}}; // NOLINT(performance-no-int-to-ptr)
	struct msghdr mh = {.msg_iov = iov, .msg_iovlen = 2, .msg_control = ctl.b};
	struct cmsghdr *c = &ctl.align;
	size_t n = 0;

	for (int i = 0; i < ORDER_FDS; i++) {
		o.at[i] = fd[i] >= 0 ? (int8_t)n : -1;
		if (fd[i] >= 0)
			memcpy(CMSG_DATA(c) + n++ * sizeof(int), &fd[i], sizeof(int));
	}
	mh.msg_controllen = (socklen_t)CMSG_SPACE(n * sizeof(int));
	*c = (struct cmsghdr){
	    .cmsg_len = (socklen_t)CMSG_LEN(n * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
	return sendmsg(sock, &mh, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)(sizeof(o) + q->msg_len);
}

bool starter_give(struct agent *a, struct job *j, const struct child *c, int leaf_fd)
{
	const int fd[ORDER_FDS] = {leaf_fd, c->status, c->std[0], c->std[1], c->std[2], c->tty};

	if (j->kind != REQ_EXEC || leaf_fd < 0 || c->measure || c->ask->msg_len > MSG_MAX || !is_free(a) ||
	    !send_order(a->starter.fd, c->ask, fd))
		return false;
	a->starter.busy = true;
	j->given = true;
	return true;
}

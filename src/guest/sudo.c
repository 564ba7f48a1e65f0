#include "guest/sudo.h"

#include "base/cleanup.h"
#include "guest/birth.h"
#include "guest/conn.h"
#include "guest/launch.h"
#include "wire/sudo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/*
 * Theory of operation. A caller becomes a job like an exec without a leaf: a guard, and below it a child that reads the request
 * itself (sudo_child.c). PID 1 looks at who calls (SO_PEERCRED), then only waits: for the child's word that the request
 * was read (REPORT_READY), from when on a byte of the caller's is a signal; for the caller's end, which ends the
 * job; and for the job's, which is the answer. PID 1 takes no descriptor (guest/conn.h) and decodes nothing.
 *
 * Nothing here waits: sockets are used with MSG_DONTWAIT, and the one answer of at most SUDO_REPLY_MAX bytes always has
 * room in a socket nothing was written to. Where too many call they are refused, so nobody queues behind them.
 *
 * What a command leaves running lives on after its answer, as with an exec, until the sandbox's end.
 */

enum {
	BACKLOG = 64,
	ACCEPTS_MAX = 16,   /* in one turn of the loop */
	SIGNALS_MAX = 64,   /* as above, of one caller */
	REQUEST_MS = 5000,  /* for the whole request to come */
	GRACE_MS = 300,	    /* from the hang-up to the end by force */
	REST_MS = 100,	    /* when there is no descriptor to be had */
};

int sudo_listen(struct sudo *s)
{
	static const char name[] = SUDO_SOCKET;
	union {
		struct sockaddr_un un;
		struct sockaddr any;
	} addr = {.un = {.sun_family = AF_UNIX}};
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof(name));

	memcpy(addr.un.sun_path + 1, name, sizeof(name) - 1); /* the first byte stays 0: abstract */
	if (fd < 0 || bind(fd, &addr.any, len) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	s->listen_fd = steal_fd(&fd);
	return 0;
}

int sudo_rests(const struct sudo *s)
{
	uint64_t now = s->rest_ns != 0 ? agent_now() : 0;

	return now < s->rest_ns ? (int)((s->rest_ns - now) / NS_PER_MS) + 1 : 0;
}

static void answer(int fd, const struct job *j)
{
	struct buf b;

	buf_init(&b, SUDO_REPLY_MAX);
	if (job_result(j, agent_now(), &b) == 0)
		(void)!send(fd, buf_head(&b), b.len, MSG_DONTWAIT | MSG_NOSIGNAL);
	buf_done(&b);
}

/* Why this caller is not served, NULL = it is. */
static const char *refusal(const struct agent *a, const struct ucred *who)
{
	if (a->shutdown_id != 0)
		return "the sandbox is ending";
	if (who->uid != 0 && who->uid != a->sudo.uid)
		return "only root and the sandbox's own user may";
	if (a->sudo.n == SUDO_JOBS_MAX)
		return "too many at once";
	return NULL;
}

static void start(struct agent *a, struct job *j, const struct ucred *who)
{
	struct child c = {.rules = &a->rules,
			  .std = {-1, -1, -1},
			  .null_fd = a->null_fd,
			  .tty = -1,
			  .conn_fd = j->conn_fd,
			  .caller_uid = who->uid,
			  .caller_gid = who->gid};
	int status[2];
	pid_t pid;

	if (pipe2(status, O_CLOEXEC | O_NONBLOCK) < 0) {
		job_end_error(j, errno, "making pipes");
		return;
	}
	c.status = status[1];
	j->status_fd = status[0];
	pid = birth(a, j, &c, -1);
	a->had_child = true;
	(void)close(status[1]);
	if (pid < 0) {
		j->guarded = false;
		job_end_error(j, -pid, birth_failed(pid, false));
		return;
	}
	j->pid = pid;
	j->sweep_ns = j->start_ns + REQUEST_MS * NS_PER_MS;
}

/* True when fd is taken. */
static bool serve(struct agent *a, int fd)
{
	static const struct ask exec = {.kind = REQ_EXEC};
	struct ucred who = {.uid = (uid_t)-1};
	socklen_t len = sizeof(who);
	struct job *j = job_new(0, &exec);
	const char *why;

	if (j == NULL)
		return false;
	j->start_ns = agent_now();
	j->inside = j->guarded = j->watch_status = true;
	why = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 ? "who calls is unknown" : refusal(a, &who);
	if (why != NULL) {
		job_end_error(j, EPERM, why);
		answer(fd, j);
		job_free(j);
		return false;
	}
	j->conn_fd = fd;
	a->sudo.jobs[a->sudo.n++] = j;
	start(a, j, &who);
	return true;
}

void sudo_accept(struct agent *a)
{
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		/* cppcheck-suppress nullPointer ; nobody wants the address */
		int fd = accept4(a->sudo.listen_fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			a->sudo.rest_ns = agent_now() + REST_MS * NS_PER_MS;
		if (fd < 0)
			return;
		if (!serve(a, fd))
			conn_drop(fd);
	}
}

/* What runs for it is told, as when a terminal is gone; what is still there after a moment is ended. */
static void hang_up(struct agent *a, struct job *j)
{
	static const int told[] = {SIGHUP, SIGTERM, SIGCONT};

	conn_drop(steal_fd(&j->conn_fd));
	if (j->pid == 0)
		return; /* a guard has no descendants any more when it ends */
	for (size_t i = 0; j->cmd != 0 && !j->ended && i < sizeof(told) / sizeof(told[0]); i++)
		a->ops->signal(a, j, told[i]);
	j->sweep_ns = agent_now() + GRACE_MS * NS_PER_MS;
}

void sudo_heard(struct agent *a, struct job *j)
{
	uint8_t sig[SIGNALS_MAX];
	ssize_t n;

	if (j->conn_fd < 0)
		return;
	if (!j->ready) { /* what is there is the child's to read; we were woken because it will read no more */
		hang_up(a, j);
		return;
	}
	n = conn_recv(j->conn_fd, sig, sizeof(sig));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	for (ssize_t i = 0; i < n; i++) {
		if (sig[i] < 1 || sig[i] > 64)
			n = -1;
		else if (!j->ended)
			a->ops->signal(a, j, sig[i]);
	}
	if (n <= 0)
		hang_up(a, j);
}

void sudo_settle(struct agent *a)
{
	for (uint32_t i = 0; i < a->sudo.n;) {
		struct job *j = a->sudo.jobs[i];

		/* nobody to tell, and what is left is to go: not before it has */
		if (!j->ended || j->sweeping || (j->conn_fd < 0 && j->sweep_ns != 0 && j->pid > 0)) {
			i++;
			continue;
		}
		if (j->conn_fd >= 0) {
			answer(j->conn_fd, j);
			conn_drop(steal_fd(&j->conn_fd));
		}
		j->sweep_ns = 0;
		j->closed = true;
		a->sudo.jobs[i] = a->sudo.jobs[--a->sudo.n];
		if (j->pid > 0) { /* its background processes live on */
			j->next = a->guards;
			a->guards = j;
		} else {
			job_free(j);
		}
	}
}

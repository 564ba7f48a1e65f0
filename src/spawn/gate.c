#include "spawn/gate.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "gate/judge.h"
#include "spawn/program.h"
#include "spawn/secret.h"
#include "sys/file.h"
#include "wire/gate.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * One gate for one sandbox. Where it has to be there from the beginning, the program is started before all else that a start takes, on
 * another processor; else when it is first asked something, or its caller thinks it is time (runner.h).
 */

enum { ANSWER_MS = 10000, RECORDS_ROOM = 1 << 20, RESOLV_MAX = 64 * 1024 };

void gate_init(struct gate *g) { *g = (struct gate){.pid = -1, .ctl_fd = -1, .rec_fd = -1, .prog_fd = -1}; }

/* The host's resolvers, for rules that name none (resolv.conf(5)). */
static void host_resolvers(struct gate_ask *q)
{
	static char text[RESOLV_MAX];
	char *next = text, *p;
	uint8_t a[16];
	size_t n = 0;

	if (file_get(AT_FDCWD, "/etc/resolv.conf", text, sizeof(text)) < 0)
		return;
	while (n < GATE_RESOLVERS_MAX && (p = strsep(&next, "\n")) != NULL) {
		p += strspn(p, " \t");
		if (strncmp(p, "nameserver", 10) != 0 || (p[10] != ' ' && p[10] != '\t'))
			continue;
		p += 10 + strspn(p + 10, " \t");
		p[strcspn(p, " \t\r#;%")] = '\0';
		if (inet_pton(AF_INET, p, a) == 1 || inet_pton(AF_INET6, p, a) == 1)
			(void)snprintf(q->resolver[n++], sizeof(q->resolver[0]), "%s", p);
	}
}

bool gate_reads_secret(const char *rules, size_t n)
{
	static const char line[] = "\nproxy credentials ";

	return memmem(rules, n, line, sizeof(line) - 1) != NULL;
}

/*
 * The credentials of the rules' proxy, if it wants any. A gate that has those of the same reference keeps them where they cannot be
 * read again, as by a process that may open no file any more.
 */
static int read_secret(struct gate *g, const char *rules, size_t n, struct buf *ret, struct err *e)
{
	const char *ref;
	struct judge *j = NULL;
	int r;

	if (!gate_reads_secret(rules, n))
		return 0;
	if (judge_new(rules, n, &j, NULL) < 0)
		return 0; /* the gate says why, and writes it down */
	ref = judge_proxy(j) != NULL ? judge_proxy(j)->secret : NULL;
	r = 0;
	if (ref != NULL) {
		r = secret_read(ref, ret, e);
		if (r < 0 && ret->len == 0 && strcmp(ref, g->secret_ref) == 0)
			r = 0;
		else if (r == 0 && (ret->len > PROXY_SECRET_MAX || memchr(buf_head(ret), ':', ret->len) == NULL))
			r = err_set(e, ERR_INVALID, EINVAL, "proxy: credentials %s: USER:PASSWORD of at most %d bytes is needed", ref,
				    PROXY_SECRET_MAX);
		if (r == 0)
			(void)snprintf(g->secret_ref, sizeof(g->secret_ref), "%s", ref);
	}
	judge_free(j);
	return r;
}

/* One message with its text, secret and descriptors. */
static int ask(const struct gate *g, struct gate_ask *q, const char *text, const struct buf *secret, const int *fds, size_t n)
{
	union {
		char space[CMSG_SPACE(NET_SOCKS * sizeof(int))];
		struct cmsghdr align;
	} ctl = {{0}};
	struct iovec iov[3] = {{.iov_base = q, .iov_len = sizeof(*q)},
			       {.iov_base = (void *)(uintptr_t)text, .iov_len = q->text_n}, /* NOLINT(performance-no-int-to-ptr) */
			       {.iov_len = secret != NULL ? secret->len : 0}};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = text != NULL ? 3 : 1};

	if (iov[2].iov_len > 0)
		iov[2].iov_base = secret->data + secret->off;
	q->secret_n = (uint32_t)iov[2].iov_len;
	(void)snprintf(q->sandbox, sizeof(q->sandbox), "%s", g->sandbox);
	if (n > 0) {
		m.msg_control = &ctl;
		m.msg_controllen = (socklen_t)CMSG_SPACE(n * sizeof(int));
		ctl.align.cmsg_level = SOL_SOCKET;
		ctl.align.cmsg_type = SCM_RIGHTS;
		ctl.align.cmsg_len = (socklen_t)CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(&ctl.align), fds, n * sizeof(int));
	}
	return sendmsg(g->ctl_fd, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static void forget(struct buf *secret)
{
	if (secret->data != NULL)
		explicit_bzero(secret->data, secret->cap);
	buf_done(secret);
}

static int send_rules(struct gate *g, const struct gate_who *who, const char *rules, size_t n, const struct buf *secret, int peer_fd)
{
	struct gate_ask q = {.kind = GATE_ATTACH, .text_n = (uint32_t)n};
	_cleanup_close_ int far_fd = -1;
	int rec[2], fds[2];

	if (pipe2(rec, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	g->rec_fd = rec[0];
	far_fd = rec[1];
	(void)fcntl(far_fd, F_SETPIPE_SZ, RECORDS_ROOM);
	(void)snprintf(g->sandbox, sizeof(g->sandbox), "%s", who->sandbox);
	(void)snprintf(q.tier, sizeof(q.tier), "%s", who->tier);
	(void)snprintf(q.task, sizeof(q.task), "%s", who->task != NULL ? who->task : "");
	host_resolvers(&q);
	fds[0] = far_fd;
	fds[1] = peer_fd;
	return ask(g, &q, rules, secret, fds, peer_fd >= 0 ? 2 : 1);
}

int gate_find(struct gate *g, struct err *e)
{
	char path[512];
	bool ours;

	return program_find("brig-gate", path, sizeof(path), &g->prog_fd, &ours, e);
}

int gate_start(struct gate *g, struct err *e)
{
	_cleanup_close_ int prog_fd = -1, far_fd = -1, high_fd = -1;
	int ctl[2], r, room = GATE_TEXT_MAX * 2;

	r = g->prog_fd < 0 ? gate_find(g, e) : 0;
	if (r < 0)
		return r;
	prog_fd = steal_fd(&g->prog_fd);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ctl) < 0)
		return err_set(e, ERR_INTERNAL, errno, "the gate's socket: %s", strerror(errno));
	g->ctl_fd = ctl[0];
	far_fd = ctl[1];
	(void)setsockopt(g->ctl_fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	/* dup2 to the same number would leave it closed by execve */
	high_fd = fcntl(far_fd, F_DUPFD_CLOEXEC, 16);
	r = high_fd < 0 ? -errno : program_spawn(prog_fd, "brig-gate", high_fd, -1, &g->pid);
	return r < 0 ? err_set(e, ERR_INTERNAL, -r, "starting brig-gate: %s", strerror(-r)) : 0;
}

static int send_policy(const struct gate *g, const char *rules, size_t n, const struct buf *secret)
{
	struct gate_ask q = {.kind = GATE_POLICY, .text_n = (uint32_t)n};

	return ask(g, &q, rules, secret, NULL, 0);
}

/* who: NULL = it has rules, and these are others. */
static int tell_rules(struct gate *g, const struct gate_who *who, const char *rules, size_t n, int peer_fd, struct err *e)
{
	struct buf secret;
	int r;

	if (n > GATE_TEXT_MAX)
		return err_set(e, ERR_LIMITED, E2BIG, "egress: more than %d KiB of rules", GATE_TEXT_MAX / 1024);
	buf_init(&secret, SECRET_MAX + 1);
	r = read_secret(g, rules, n, &secret, e);
	if (r == 0) {
		r = who != NULL ? send_rules(g, who, rules, n, &secret, peer_fd) : send_policy(g, rules, n, &secret);
		if (r < 0)
			(void)err_set(e, ERR_INTERNAL, -r, "the gate (brig-gate): %s", strerror(-r));
	}
	forget(&secret);
	return r;
}

int gate_rules(struct gate *g, const struct gate_who *who, const char *rules, size_t n, int peer_fd, struct err *e)
{
	return tell_rules(g, who, rules, n, peer_fd, e);
}

int gate_policy(struct gate *g, const char *rules, size_t n, struct err *e) { return tell_rules(g, NULL, rules, n, -1, e); }

static int await(struct gate *g, struct gate_tell *t)
{
	struct pollfd p = {.fd = g->ctl_fd, .events = POLLIN};
	ssize_t n;
	int r;

	do
		r = poll(&p, 1, ANSWER_MS);
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		return r == 0 ? -ETIMEDOUT : -errno;
	n = recv(g->ctl_fd, t, sizeof(*t), MSG_DONTWAIT);
	t->why[sizeof(t->why) - 1] = '\0';
	return n == (ssize_t)sizeof(*t) ? 0 : -EPIPE;
}

static int send_socks(struct gate *g, const struct net_socks *socks)
{
	struct gate_ask q = {.kind = GATE_SOCKS};
	int fds[NET_SOCKS];
	size_t k = 0;

	for (int i = 0; i < GATE_SOCKS_MAX; i++) {
		if (socks->fd[i] < 0)
			continue;
		q.there |= 1u << i;
		fds[k++] = socks->fd[i];
	}
	return ask(g, &q, NULL, NULL, fds, k);
}

int gate_send(struct gate *g, struct net_socks *socks, struct err *e)
{
	int r = send_socks(g, socks);

	net_socks_close(socks);
	return r < 0 ? err_set(e, ERR_INTERNAL, -r, "the gate (brig-gate): %s", strerror(-r)) : 0;
}

int gate_give(struct gate *g, struct net_socks *socks, struct err *e)
{
	struct gate_tell t = {.kind = 0};
	int r = await(g, &t); /* said long ago, as a rule */

	if (r == 0 && t.kind == GATE_ATTACHED)
		r = send_socks(g, socks);
	net_socks_close(socks);
	if (r < 0)
		return err_set(e, ERR_INTERNAL, -r, "the gate (brig-gate): %s", strerror(-r));
	if (t.kind != GATE_ATTACHED)
		return err_set(e, ERR_UNSUPPORTED, ENOTSUP, "the gate refused: %s", t.why);
	return 0;
}

enum gate_heard gate_hear(struct gate *g, char *why, size_t size)
{
	struct gate_tell t;
	ssize_t n = recv(g->ctl_fd, &t, sizeof(t), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return GATE_NOTHING;
	if (n != (ssize_t)sizeof(t))
		return GATE_LOST;
	t.why[sizeof(t.why) - 1] = '\0';
	(void)snprintf(why, size, "%s", t.why);
	switch ((enum gate_kind)t.kind) {
	case GATE_KILL:
		return GATE_WANTS_KILL;
	case GATE_DETACHED:
		return GATE_ENDED;
	case GATE_POLICY_SET:
		return GATE_TOOK_RULES;
	case GATE_POLICY_KEPT:
		return GATE_KEPT_RULES;
	case GATE_REFUSED:
		return GATE_LOST; /* it does not serve the sandbox */
	case GATE_ATTACH:
	case GATE_DETACH:
	case GATE_SOCKS:
	case GATE_POLICY:
	case GATE_ATTACHED:
		break;
	}
	return GATE_NOTHING;
}

void gate_detach(struct gate *g)
{
	struct gate_ask q = {.kind = GATE_DETACH};

	(void)snprintf(q.sandbox, sizeof(q.sandbox), "%s", g->sandbox);
	if (g->ctl_fd >= 0)
		(void)send(g->ctl_fd, &q, sizeof(q), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void let_go(struct gate *g)
{
	if (g->pid > 0)
		(void)kill(g->pid, SIGKILL); /* it holds nothing that has to be tidied; first, else it would tidy */
	if (g->ctl_fd >= 0)
		(void)close(g->ctl_fd);
	if (g->rec_fd >= 0)
		(void)close(g->rec_fd);
	if (g->prog_fd >= 0)
		(void)close(g->prog_fd);
}

void gate_leave(struct gate *g)
{
	let_go(g);
	gate_init(g);
}

void gate_done(struct gate *g)
{
	let_go(g);
	while (g->pid > 0 && waitpid(g->pid, NULL, 0) < 0 && errno == EINTR)
		;
	gate_init(g);
}

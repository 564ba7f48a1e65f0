#include "relay/relay.h"

#include "base/num.h"
#include "relay/jail.h"
#include "relay/handover.h"
#include "relay/upsock.h"
#include "sys/pages.h"
#include "wire/gate.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * brig-gate: sandboxes come and go over the control socket; everything else happens in box.c,
 * flow_priv.h's files and names.c. The end of the socket is the end of the process. If the jail
 * cannot be entered nothing is served: each sandbox is refused, with the reason.
 */

enum { BOXES_MAX = 1024 };

_Static_assert((int)NET_RULES == (int)GATE_SOCKS_MAX,
	       "wire/gate.h counts the sockets of net/net.h that the gate has");

struct server {
	struct source ctl; /* first: see ctl_ready */
	struct loop loop;
	struct box *box[BOXES_MAX];
	uint32_t boxes, first;
	char refusal[GATE_WHY_MAX]; /* why nothing can be served */
	uint8_t msg[sizeof(struct gate_ask) + GATE_TEXT_MAX + GATE_SECRET_MAX + 1];
};

static struct server server;

static void tell(uint32_t kind, const char *sandbox, const char *why)
{
	struct gate_tell t = {.kind = kind};

	(void)snprintf(t.sandbox, sizeof(t.sandbox), "%s", sandbox);
	(void)snprintf(t.why, sizeof(t.why), "%s", why);
	(void)!send(server.ctl.fd, &t, sizeof(t), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void want_kill(struct box *b, const char *why) { tell(GATE_KILL, b->id, why); }

static void close_all(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		(void)close(fds[i]);
}

static void join_resolvers(const struct gate_ask *q, char *out, size_t size)
{
	size_t at = 0;

	out[0] = '\0';
	for (int i = 0; i < GATE_RESOLVERS_MAX; i++)
		if (q->resolver[i][0] != '\0' && at < size)
			at += (size_t)snprintf(out + at, size - at, "%s%s", at > 0 ? "," : "",
					       q->resolver[i]);
}

static struct box *find(const char *sandbox, uint32_t *ret_at)
{
	for (uint32_t i = 0; i < server.boxes; i++) {
		if (strcmp(server.box[i]->id, sandbox) != 0)
			continue;
		*ret_at = i;
		return server.box[i];
	}
	return NULL;
}

/* *n: how many of fds are still the caller's. */
static int try_attach(const struct gate_ask *q, const char *text, const int *fds, size_t *n, struct err *e)
{
	char resolvers[GATE_RESOLVERS_MAX * 58];
	uint32_t at;
	int r;

	if (server.refusal[0] != '\0')
		return err_set(e, ERR_UNSUPPORTED, EPERM, "%s", server.refusal);
	if (*n < 1 || *n > 2)
		return err_set(e, ERR_INVALID, EPROTO, "the pipe for records did not come");
	if (server.boxes >= BOXES_MAX || find(q->sandbox, &at) != NULL)
		return err_set(e, ERR_LIMITED, EBUSY, "too many sandboxes, or one twice");
	if (*n == 2) {
		r = handover_open(&server.loop, fds[1]);
		if (r < 0)
			return err_set(e, ERR_INTERNAL, -r, "the process that reads HTTP: %s", strerror(-r));
		*n = 1;
	}
	join_resolvers(q, resolvers, sizeof(resolvers));
	r = box_open(&server.loop, q, text, resolvers, fds[0], &server.box[server.boxes], e);
	if (r < 0)
		return r;
	server.box[server.boxes++]->kill = want_kill;
	return 0;
}

static void attach(const struct gate_ask *q, const char *text, const int *fds, size_t n)
{
	struct err e = ERR_INIT;

	if (try_attach(q, text, fds, &n, &e) < 0) {
		close_all(fds, n);
		tell(GATE_REFUSED, q->sandbox, e.msg);
	} else {
		tell(GATE_ATTACHED, q->sandbox, "");
	}
}

static int try_sockets(const struct gate_ask *q, const int *fds, size_t n, struct err *e)
{
	int socks[NET_SOCKS];
	uint32_t at_box;
	struct box *b = find(q->sandbox, &at_box);
	size_t at = 0;

	socks[NET_RULES] = -1;
	for (uint32_t i = 0; i < GATE_SOCKS_MAX; i++)
		socks[i] = (q->there & 1u << i) != 0 && at < n ? fds[at++] : -1;
	if (b == NULL || b->sock[NET_TCP4].fd >= 0 || at != n || socks[NET_TCP4] < 0 ||
	    socks[NET_DNS4] < 0 || socks[NET_DROPS] < 0)
		return err_set(e, ERR_INVALID, EPROTO, "the sandbox's sockets did not come");
	return box_sockets(b, socks, e);
}

static void sockets(const struct gate_ask *q, const int *fds, size_t n)
{
	struct err e = ERR_INIT;

	if (try_sockets(q, fds, n, &e) == 0)
		return;
	close_all(fds, n);
	tell(GATE_REFUSED, q->sandbox, e.msg);
}

static void policy(const struct gate_ask *q, const char *text)
{
	struct err e = ERR_INIT;
	uint32_t at;
	struct box *b = find(q->sandbox, &at);

	if (b == NULL)
		tell(GATE_POLICY_KEPT, q->sandbox, "no such sandbox");
	else if (box_policy(b, text, q->text_n, q->secret_n, &e) < 0)
		tell(GATE_POLICY_KEPT, q->sandbox, e.msg);
	else
		tell(GATE_POLICY_SET, q->sandbox, "");
}

static void detach(const struct gate_ask *q)
{
	uint32_t at;
	struct box *b = find(q->sandbox, &at);

	if (b != NULL) {
		box_look(b);
		box_end(b); /* told when all its records are out */
	}
	else
		tell(GATE_DETACHED, q->sandbox, "");
}

static void free_ended(void)
{
	for (uint32_t i = 0; i < server.boxes; i++) {
		struct box *b = server.box[i];

		if (!box_over(b))
			continue;
		server.box[i--] = server.box[--server.boxes];
		tell(GATE_DETACHED, b->id, "");
		box_free(b);
	}
}

static void handle(const struct gate_ask *q, const char *text, const int *fds, size_t n)
{
	bool takes_fds = q->kind == GATE_ATTACH || q->kind == GATE_SOCKS;

	if (!takes_fds)
		close_all(fds, n);
	switch ((enum gate_kind)q->kind) {
	case GATE_ATTACH:
		attach(q, text, fds, n);
		break;
	case GATE_SOCKS:
		sockets(q, fds, n);
		break;
	case GATE_POLICY:
		policy(q, text);
		break;
	case GATE_DETACH:
		detach(q);
		break;
	case GATE_ATTACHED:
	case GATE_REFUSED:
	case GATE_DETACHED:
	case GATE_KILL:
	case GATE_POLICY_SET:
	case GATE_POLICY_KEPT:
	default:
		server.loop.stop = true; /* a peer that talks nonsense */
	}
}

/* One message. False when there is none, or the peer is gone. */
static bool take(void)
{
	union {
		char space[CMSG_SPACE((NET_SOCKS + 1) * sizeof(int))];
		struct cmsghdr align;
	} ctl;
	struct iovec iov = {.iov_base = server.msg, .iov_len = sizeof(server.msg) - 1};
	struct msghdr m = {
	    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ctl, .msg_controllen = sizeof(ctl)};
	ssize_t got = recvmsg(server.ctl.fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int fds[NET_SOCKS + 1];
	struct cmsghdr *c;
	struct gate_ask q;
	size_t n = 0;

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return errno == EINTR;
	if (got <= 0) {
		server.loop.stop = true;
		return false;
	}
	c = CMSG_FIRSTHDR(&m);
	if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
		n = MIN((c->cmsg_len - CMSG_LEN(0)) / sizeof(int), ARRAY_LEN(fds));
		memcpy(fds, CMSG_DATA(c), n * sizeof(int));
	}
	if ((size_t)got < sizeof(q) || (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
		close_all(fds, n);
		server.loop.stop = true; /* a peer that talks nonsense */
		return false;
	}
	memcpy(&q, server.msg, sizeof(q));
	q.sandbox[sizeof(q.sandbox) - 1] = q.tier[sizeof(q.tier) - 1] = q.task[sizeof(q.task) - 1] = '\0';
	for (int i = 0; i < GATE_RESOLVERS_MAX; i++)
		q.resolver[i][sizeof(q.resolver[i]) - 1] = '\0';
	server.msg[got] = '\0';
	if (q.text_n > GATE_TEXT_MAX || q.secret_n > GATE_SECRET_MAX || q.text_n + q.secret_n != (size_t)got - sizeof(q)) {
		close_all(fds, n);
		server.loop.stop = true;
		return false;
	}
	handle(&q, (const char *)server.msg + sizeof(q), fds, n);
	explicit_bzero(server.msg + sizeof(q) + q.text_n, q.secret_n);
	return !server.loop.stop;
}

static void ctl_ready(struct source *s, uint32_t ev)
{
	(void)s;
	(void)ev;
	while (take())
		;
}

int relay_main(int ctl_fd)
{
	char why[128] = "";
	int r, wait = -1;

	pages_make_code();
	(void)prctl(PR_SET_NAME, "brig-gate", 0, 0, 0); /* it was started by descriptor */
	/* splice and write to a socket whose peer is gone say EPIPE: no peer ends this process */
	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	r = jail_enter(why, sizeof(why));
	if (r < 0)
		(void)snprintf(server.refusal, sizeof(server.refusal), "%s: %s", why, strerror(-r));
	server.ctl = (struct source){.ready = ctl_ready, .fd = ctl_fd};
	if (loop_open(&server.loop) < 0 || loop_watch(&server.loop, &server.ctl) < 0)
		return 1;
	while (!server.loop.stop) {
		loop_turn(&server.loop, wait);
		wait = -1;
		free_ended();
		server.first++; /* nobody is always the first */
		for (uint32_t i = 0; i < server.boxes; i++) {
			int w = box_tick(server.box[(server.first + i) % server.boxes]);

			if (w >= 0 && (wait < 0 || w < wait))
				wait = w;
		}
		if (server.loop.idle)
			upsock_make();
		server.loop.again |= upsock_wanted();
	}
	while (server.boxes > 0)
		box_free(server.box[--server.boxes]);
	loop_close(&server.loop);
	return 0;
}

#include "inspect/inspect.h"

#include "base/num.h"
#include "inspect/jail.h"
#include "inspect/priv.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * brig-inspect: sandboxes come and go over the control socket, connections over the pair with the gate; the rest happens in
 * conn.c. The end of the control socket is the end of the process. If the jail cannot be entered nothing is served: each
 * sandbox is refused, with the reason.
 */

enum { BOXES_MAX = 1024, TICK_MS = 250, TELLS_MAX = 8192, TELLS_FULL = 1024, FDS_MAX = INSPECT_TRUST_MAX };

struct tell_kept {
	struct tell_kept *next;
	struct inspect_tell t;
};

static struct {
	struct source ctl, peer;
	struct loop loop;
	struct box *box[BOXES_MAX];
	uint32_t boxes;
	struct tell_kept *kept, **kept_end; /* for the gate, when its socket was full */
	uint32_t kept_n;
	uint64_t tick_at_ms;
	char refusal[INSPECT_WHY_MAX];
	uint8_t msg[sizeof(struct inspect_ask) + INSPECT_TEXT_MAX + INSPECT_SECRETS_MAX + 1];
} server;

/* ---- to the gate ---- */

static bool send_gate(const struct inspect_tell *t)
{
	ssize_t n;

	do
		n = server.peer.fd >= 0 ? send(server.peer.fd, t, sizeof(*t), MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
	while (n < 0 && errno == EINTR);
	return n >= 0 || errno != EAGAIN; /* a gate that is gone needs nothing */
}

static void send_kept(void)
{
	while (server.kept != NULL && send_gate(&server.kept->t)) {
		struct tell_kept *k = server.kept;

		server.kept = k->next;
		server.kept_n--;
		free(k);
	}
	if (server.kept == NULL)
		server.kept_end = &server.kept;
}

bool tell_room(void) { return server.kept_n < TELLS_FULL; }

bool tell_gate(const struct inspect_tell *t)
{
	struct tell_kept *k;

	if (server.kept == NULL && send_gate(t))
		return true;
	k = server.kept_n < TELLS_MAX ? malloc(sizeof(*k)) : NULL;
	if (k == NULL) {
		server.loop.stop = true; /* the gate would count what is gone for ever: end with it */
		return false;
	}
	*k = (struct tell_kept){.t = *t};
	*server.kept_end = k;
	server.kept_end = &k->next;
	server.kept_n++;
	return tell_room();
}

/* ---- from the gate ---- */

static struct box *box_of(const char *id)
{
	for (uint32_t i = 0; i < server.boxes; i++)
		if (strcmp(server.box[i]->id, id) == 0)
			return server.box[i];
	return NULL;
}

static struct conn *conn_of(uint64_t flow)
{
	for (uint32_t i = 0; i < server.boxes; i++)
		for (struct conn *k = server.box[i]->conns; k != NULL; k = k->next)
			if (k->flow == flow)
				return k;
	return NULL;
}

static void take(const struct inspect_hand *h, int fd)
{
	struct box *b = box_of(h->sandbox);
	struct inspect_tell gone = {.kind = INSPECT_CLOSED, .flow = h->flow, .reason = "no_sandbox"};

	if (b != NULL && fd >= 0 && tell_room()) {
		conn_take(b, h, fd);
		return;
	}
	if (fd >= 0)
		(void)close(fd);
	(void)tell_gate(&gone);
}

static void obey(struct inspect_hand *h, int fd)
{
	struct conn *k = h->kind == INSPECT_TAKE ? NULL : conn_of(h->flow);

	h->sandbox[sizeof(h->sandbox) - 1] = h->name[sizeof(h->name) - 1] = h->reason[sizeof(h->reason) - 1] = '\0';
	if (h->kind == INSPECT_TAKE) {
		take(h, fd);
		return;
	}
	if (k != NULL && h->kind == INSPECT_UP && fd >= 0) {
		conn_up(k, fd);
		return;
	}
	if (fd >= 0)
		(void)close(fd);
	if (k != NULL && h->kind == INSPECT_NO_UP)
		conn_no_up(k, h->reason);
	else if (k != NULL)
		conn_drop(k, h->reason[0] != '\0' ? h->reason : "dropped");
}

/* One record with its descriptors: bytes, -1 = none now, 0 = the end. */
static ssize_t receive(struct source *s, void *p, size_t size, int *fds, size_t *fds_n)
{
	union {
		char space[CMSG_SPACE(FDS_MAX * sizeof(int))];
		struct cmsghdr align;
	} ctl;
	struct iovec iov = {.iov_base = p, .iov_len = size};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ctl, .msg_controllen = sizeof(ctl)};
	struct cmsghdr *c;
	ssize_t n;

	*fds_n = 0;
	do
		n = recvmsg(s->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? -1 : 0;
	c = CMSG_FIRSTHDR(&m);
	if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
		*fds_n = MIN((c->cmsg_len - CMSG_LEN(0)) / sizeof(int), (size_t)FDS_MAX);
		memcpy(fds, CMSG_DATA(c), *fds_n * sizeof(int));
	}
	return (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ? 0 : n;
}

static void close_all(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		(void)close(fds[i]);
}

static void peer_ready(struct source *s, uint32_t events)
{
	struct inspect_hand h;
	int fds[FDS_MAX];
	size_t n;
	ssize_t got;

	if ((events & EPOLLOUT) != 0)
		send_kept();
	while (s->fd >= 0 && (got = receive(s, &h, sizeof(h), fds, &n)) != -1) {
		if (got == (ssize_t)sizeof(h) && n <= 1) {
			obey(&h, n == 1 ? fds[0] : -1);
			continue;
		}
		close_all(fds, n);
		if (got == 0) {
			loop_drop(s);
			for (uint32_t i = 0; i < server.boxes; i++)
				while (server.box[i]->conns != NULL)
					conn_drop(server.box[i]->conns, "gate_gone");
			return;
		}
	}
}

/* ---- from brig ---- */

static void tell(uint32_t kind, const char *sandbox, const char *why, const struct box *b)
{
	struct inspect_told t = {.kind = kind};
	int n = b != NULL && b->ca != NULL ? authority_pem(b->ca, t.ca, sizeof(t.ca)) : 0;

	if (n < 0) {
		t.kind = INSPECT_REFUSED;
		why = "out of memory";
	}
	t.ca_n = (uint32_t)MAX(n, 0);
	(void)snprintf(t.sandbox, sizeof(t.sandbox), "%s", sandbox);
	(void)snprintf(t.why, sizeof(t.why), "%s", why);
	(void)!send(server.ctl.fd, &t, sizeof(t), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void attach(const struct inspect_ask *q, const char *text, const uint8_t *secrets, const int *fds, size_t n)
{
	struct err e = ERR_INIT;
	struct box *b = box_of(q->sandbox);
	int r;

	if (server.refusal[0] != '\0')
		r = err_set(&e, ERR_UNSUPPORTED, EPERM, "%s", server.refusal);
	else if (q->kind == INSPECT_POLICY)
		r = b != NULL ? box_policy(b, text, q->text_n, secrets, q->secrets_n, &e)
			      : err_set(&e, ERR_INVALID, ENOENT, "no such sandbox");
	else if (b != NULL || server.boxes == BOXES_MAX)
		r = err_set(&e, ERR_LIMITED, EBUSY, "too many sandboxes");
	else
		r = box_open(&server.loop, q->sandbox, text, q->text_n, secrets, q->secrets_n, fds, n, &b, &e);
	if (r == 0 && q->kind == INSPECT_ATTACH)
		server.box[server.boxes++] = b;
	tell(r < 0 ? INSPECT_REFUSED : INSPECT_ATTACHED, q->sandbox, r < 0 ? e.msg : "", r < 0 ? NULL : b);
}

static void detach(const char *id)
{
	for (uint32_t i = 0; i < server.boxes; i++) {
		if (strcmp(server.box[i]->id, id) != 0)
			continue;
		box_free(server.box[i]);
		server.box[i] = server.box[--server.boxes];
		break;
	}
	tell(INSPECT_DETACHED, id, "", NULL);
}

static void ctl_ready(struct source *s, uint32_t events)
{
	struct inspect_ask q;
	int fds[FDS_MAX];
	size_t n;
	ssize_t got;

	(void)events;
	while ((got = receive(s, server.msg, sizeof(server.msg), fds, &n)) != -1) {
		size_t body = (size_t)got - sizeof(q);

		if (got < (ssize_t)sizeof(q)) {
			close_all(fds, n);
			server.loop.stop = true; /* gone, or it talks nonsense */
			return;
		}
		memcpy(&q, server.msg, sizeof(q));
		q.sandbox[sizeof(q.sandbox) - 1] = '\0';
		if (q.text_n <= body && q.secrets_n == body - q.text_n && q.trust_n == n &&
		    (q.kind == INSPECT_ATTACH || q.kind == INSPECT_POLICY))
			attach(&q, (const char *)server.msg + sizeof(q), server.msg + sizeof(q) + q.text_n, fds, n);
		else if (q.kind == INSPECT_DETACH)
			detach(q.sandbox);
		else
			server.loop.stop = true;
		close_all(fds, n);
		explicit_bzero(server.msg, (size_t)got); /* secrets */
	}
}

/* ---- */

static int tick(bool again)
{
	bool any = false;

	if (again || server.loop.now_ms >= server.tick_at_ms) {
		server.tick_at_ms = server.loop.now_ms + TICK_MS;
		for (uint32_t i = 0; i < server.boxes; i++) {
			struct conn *next;

			for (struct conn *k = server.box[i]->conns; k != NULL; k = next) {
				next = k->next;
				conn_tick(k);
			}
		}
	}
	for (uint32_t i = 0; i < server.boxes; i++)
		any |= server.box[i]->conns != NULL;
	return any ? TICK_MS : -1;
}

int inspect_main(int ctl_fd, int peer_fd)
{
	char why[128] = "the TLS library";
	int r, wait = -1;

	(void)prctl(PR_SET_NAME, "brig-inspect", 0, 0, 0); /* it was started by descriptor */
	/* splice and write to a socket whose peer is gone say EPIPE: no peer ends this process */
	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	r = authority_prepare();
	if (r == 0)
		r = inspect_jail(why, sizeof(why));
	if (r < 0)
		(void)snprintf(server.refusal, sizeof(server.refusal), "%s: %s", why, strerror(-r));
	server.kept_end = &server.kept;
	server.ctl = (struct source){.ready = ctl_ready, .fd = ctl_fd};
	server.peer = (struct source){.ready = peer_ready, .fd = peer_fd};
	if (loop_open(&server.loop) < 0 || loop_watch(&server.loop, &server.ctl) < 0 ||
	    loop_watch(&server.loop, &server.peer) < 0)
		return 1;
	while (!server.loop.stop) {
		bool again;

		loop_turn(&server.loop, wait);
		again = server.loop.again;
		server.loop.again = false;
		wait = tick(again);
	}
	while (server.boxes > 0)
		box_free(server.box[--server.boxes]);
	loop_close(&server.loop);
	return 0;
}

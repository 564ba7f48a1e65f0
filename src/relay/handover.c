#include "relay/handover.h"

#include "base/num.h"
#include "wire/inspect.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { SLOTS = 1024 };

static struct {
	bool had;                 /* there was one at the start */
	struct source src;        /* fd -1 = there is no such process, or none any more */
	uint64_t last;            /* number of a flow */
	struct flow *slot[SLOTS]; /* by number, chained by away_next */
} peer = {.src = {.fd = -1}};

static struct flow **slot_of(uint64_t nr) { return &peer.slot[nr % SLOTS]; }

static struct flow *find(uint64_t nr)
{
	struct flow *f = *slot_of(nr);

	while (f != NULL && f->away != nr)
		f = f->away_next;
	return f;
}

/* Nothing is kept for later: what finds the socket full does not happen. */
static bool send_hand(const struct flow *f, uint32_t kind, const char *reason, int fd)
{
	struct inspect_hand h = {.kind = kind, .port = f->dest.port, .flow = f->away};
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} ctl = {{0}};
	struct iovec iov = {.iov_base = &h, .iov_len = sizeof(h)};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	if (peer.src.fd < 0)
		return false;
	(void)snprintf(h.sandbox, sizeof(h.sandbox), "%s", f->b->id);
	(void)snprintf(h.name, sizeof(h.name), "%s", f->dest.name);
	(void)snprintf(h.reason, sizeof(h.reason), "%s", reason);
	if (fd >= 0) {
		m.msg_control = &ctl;
		m.msg_controllen = sizeof(ctl);
		ctl.align.cmsg_level = SOL_SOCKET;
		ctl.align.cmsg_type = SCM_RIGHTS;
		ctl.align.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&ctl.align), &fd, sizeof(int));
	}
	return sendmsg(peer.src.fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(h);
}

bool handover_wants(const struct flow *f)
{
	if (f->v.inspect)
		return true;
	return f->v.check == CHECK_HTTP && f->dest.named && peer.had;
}

bool handover_take(struct flow *f)
{
	struct flow **slot;

	f->away = ++peer.last;
	if (!f->dest.named || !send_hand(f, INSPECT_TAKE, "", f->client.fd)) {
		f->away = 0;
		return false;
	}
	slot = slot_of(f->away);
	f->away_next = *slot;
	*slot = f;
	f->state = F_AWAY;
	f->moved_ms = f->b->loop->now_ms;
	loop_drop(&f->client);
	return true;
}

bool handover_up(struct flow *f)
{
	bool ok;

	loop_unwatch(f->b->loop, &f->up); /* epoll(7) goes on as long as anybody has the socket, and f may be gone by then */
	dial_own(f);
	ok = send_hand(f, INSPECT_UP, "", f->up.fd);
	f->state = F_AWAY;
	loop_drop(&f->up);
	return ok;
}

void handover_no_up(struct flow *f, const char *reason)
{
	f->state = F_AWAY;
	(void)send_hand(f, INSPECT_NO_UP, reason, -1);
}

void handover_forget(struct flow *f)
{
	struct flow **at = slot_of(f->away);

	while (*at != NULL && *at != f)
		at = &(*at)->away_next;
	if (*at == f)
		*at = f->away_next;
	if (!f->away_closed)
		(void)send_hand(f, INSPECT_DROP, "", -1);
	f->away = 0;
}

/* ---- what it says ---- */

static void on_dial(struct flow *f, const struct inspect_tell *t)
{
	if (f->state != F_AWAY || f->away_asked)
		return; /* one dial a connection, also when there was none: what refused it may be a rule that is no more */
	f->away_asked = true;
	memcpy(f->seen.sni, t->sni, sizeof(f->seen.sni));
	memcpy(f->seen.alpn, t->alpn, sizeof(f->seen.alpn));
	f->seen.ech = t->ech != 0;
	flow_go_up(f);
}

static void on_record(struct flow *f, const struct inspect_tell *t)
{
	const struct judge_reason *known = judge_reason(t->reason);
	struct judge_hello hello = {.ech = t->ech != 0};
	struct judge_req req = {.method = t->method,
				.host = t->host,
				.path = t->path,
				.status = t->status,
				.inject_header = t->inject_header[0] != '\0' ? t->inject_header : NULL,
				.secret_ref = t->secret_ref[0] != '\0' ? t->secret_ref : NULL};
	struct judge_record r = {.event = t->what == INSPECT_REQUEST ? "request" : "connect",
				 .allow = t->allow != 0 && t->what == INSPECT_REQUEST,
				 .reason = known != NULL ? known->word : "upstream_error"};

	flow_note(f, &r);
	if (t->what == INSPECT_REQUEST) {
		r.req = &req;
	} else {
		memcpy(hello.sni, t->sni, sizeof(hello.sni));
		memcpy(hello.alpn, t->alpn, sizeof(hello.alpn));
		r.hello = &hello;
	}
	if (!box_record(f->b, &r) && r.allow)
		flow_close(f, "audit_full", true);
}

static void on_closed(struct flow *f, const struct inspect_tell *t)
{
	char why[sizeof(t->reason)];

	memcpy(why, t->reason, sizeof(why));
	f->away_closed = true;
	if (f->recorded && f->no_up != NULL) /* there was no server, whatever it has said to the client */
		flow_close(f, f->no_up, true);
	else if (f->recorded)
		flow_close(f, why[0] != '\0' ? why : "ended", true);
	else
		flow_bury(f, true);
}

static void on_tell(struct inspect_tell *t)
{
	struct flow *f = find(t->flow);

	if (f == NULL)
		return; /* it ended here meanwhile */
	t->reason[sizeof(t->reason) - 1] = t->sni[sizeof(t->sni) - 1] = t->alpn[sizeof(t->alpn) - 1] = '\0';
	t->method[sizeof(t->method) - 1] = t->host[sizeof(t->host) - 1] = t->path[sizeof(t->path) - 1] = '\0';
	t->inject_header[sizeof(t->inject_header) - 1] = t->secret_ref[sizeof(t->secret_ref) - 1] = '\0';
	switch (t->kind) {
	case INSPECT_DIAL:
		on_dial(f, t);
		break;
	case INSPECT_RECORD:
		on_record(f, t);
		break;
	case INSPECT_MOVED:
	case INSPECT_CLOSED:
		f->to_up.total += t->up;
		f->to_client.total += t->down;
		if (t->kind == INSPECT_CLOSED)
			on_closed(f, t);
		else
			flow_moved(f);
		break;
	default:
		break;
	}
}

/* It is gone, and with it every socket it held. */
static void lost(void)
{
	loop_drop(&peer.src);
	for (int i = 0; i < SLOTS; i++)
		while (peer.slot[i] != NULL) {
			struct flow *f = peer.slot[i];

			f->away_closed = true;
			if (f->recorded)
				flow_close(f, "overload", true);
			else
				flow_bury(f, true);
		}
}

static void peer_ready(struct source *s, uint32_t events)
{
	static struct inspect_tell t; /* of the one thread */

	(void)events;
	while (s->fd >= 0) {
		ssize_t n = recv(s->fd, &t, sizeof(t), MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n != (ssize_t)sizeof(t)) {
			lost();
			return;
		}
		on_tell(&t);
	}
}

int handover_open(struct loop *l, int fd)
{
	int type = 0, r;
	socklen_t n = sizeof(type);

	if (peer.had)
		return -EBUSY;
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) < 0 || type != SOCK_SEQPACKET)
		return -ENOTSOCK;
	peer.src = (struct source){.ready = peer_ready, .fd = fd};
	r = loop_watch(l, &peer.src);
	peer.had = r == 0;
	if (r < 0)
		peer.src.fd = -1;
	return r;
}

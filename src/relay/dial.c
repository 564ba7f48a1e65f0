#include "relay/handover.h"
#include "relay/upsock.h"

#include "base/num.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * The way out: the name is resolved once, each address is judged, the record is written, and the
 * addresses that were judged good are tried in turn. Who answers for the name may be an enemy of
 * this host.
 */

static int sock_addr(const struct resolve_addr *a, uint16_t port, struct sockaddr_storage *ret,
		     socklen_t *ret_n)
{
	struct sockaddr_in s4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 s6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

	memcpy(&s4.sin_addr, a->a, 4);
	memcpy(&s6.sin6_addr, a->a, 16);
	*ret = (struct sockaddr_storage){.ss_family = AF_UNSPEC};
	memcpy(ret, a->v6 ? (const void *)&s6 : (const void *)&s4, a->v6 ? sizeof(s6) : sizeof(s4));
	*ret_n = a->v6 ? sizeof(s6) : sizeof(s4);
	return a->v6 ? AF_INET6 : AF_INET;
}

static void addr_of(const struct sockaddr_storage *ss, struct judge_peer *ret)
{
	struct sockaddr_in s4;
	struct sockaddr_in6 s6;

	*ret = (struct judge_peer){.addr = {.v6 = ss->ss_family == AF_INET6}};
	if (ret->addr.v6) {
		memcpy(&s6, ss, sizeof(s6));
		memcpy(ret->addr.a, &s6.sin6_addr, 16);
		ret->port = ntohs(s6.sin6_port);
	} else {
		memcpy(&s4, ss, sizeof(s4));
		memcpy(ret->addr.a, &s4.sin_addr, 4);
		ret->port = ntohs(s4.sin_port);
	}
}

/* Nothing to do with the address: this process has no more of something. */
static bool ran_out(int err) { return err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM; }

static int dial(const struct resolve_addr *a, uint16_t port)
{
	struct sockaddr_storage ss;
	socklen_t n;
	int fd = upsock_take(sock_addr(a, port, &ss, &n));

	if (fd < 0)
		return fd;
	if (connect(fd, (const struct sockaddr *)&ss, n) < 0 && errno != EINPROGRESS) {
		int r = -errno;

		(void)close(fd);
		return r;
	}
	return fd;
}

/* Asked again, connect(2) says whether it is through: it is at once where the server is near. 1, 0: not yet, or -errno, which
 * nobody is told a second time. */
static int is_dialled(int fd, const struct resolve_addr *a, uint16_t port)
{
	struct sockaddr_storage ss;
	socklen_t n;

	(void)sock_addr(a, port, &ss, &n);
	if (connect(fd, (const struct sockaddr *)&ss, n) == 0 || errno == EISCONN)
		return 1;
	return errno == EALREADY || errno == EINPROGRESS ? 0 : -errno;
}

/*
 * An address of this host: the kernel would pick it as the source for itself. Services that trust
 * their own host listen there, whatever range it is from. Connecting a datagram socket sends
 * nothing. 0, 1, or -errno when there is nothing to ask with.
 */
static int ask_kernel(const struct resolve_addr *a)
{
	struct sockaddr_storage ss, own = {.ss_family = AF_UNSPEC};
	socklen_t n, m = sizeof(own);
	int fd = socket(sock_addr(a, 9, &ss, &n), SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct judge_peer p;
	bool ours;

	if (fd < 0)
		return errno == EAFNOSUPPORT ? 1 : -errno; /* a family that is not there: cannot tell */
	ours = connect(fd, (const struct sockaddr *)&ss, n) == 0;
	if (ours && getsockname(fd, (struct sockaddr *)&own, &m) == 0) {
		addr_of(&own, &p);
		ours = memcmp(p.addr.a, a->a, a->v6 ? 16 : 4) == 0;
	}
	(void)close(fd);
	return ours;
}

/* The same, asked once in a while for each of the last few: connections to one place follow each other. */
static int is_ours(const struct resolve_addr *a, uint64_t now_ms)
{
	enum { KEPT = 16, KEEP_MS = 1000 };
	static struct {
		struct resolve_addr addr;
		uint64_t until_ms;
		bool ours;
	} last[KEPT]; /* of the one thread */
	static uint32_t next;
	int ours;

	for (uint32_t i = 0; i < KEPT; i++)
		if (now_ms < last[i].until_ms && last[i].addr.v6 == a->v6 &&
		    memcmp(last[i].addr.a, a->a, a->v6 ? 16 : 4) == 0)
			return last[i].ours;
	ours = ask_kernel(a);
	if (ours < 0)
		return ours;
	next = (next + 1) % KEPT;
	last[next].addr = *a;
	last[next].until_ms = now_ms + KEEP_MS;
	last[next].ours = ours != 0;
	return ours;
}

/* ---- dialling ---- */

void dial_own(struct flow *f)
{
	struct sockaddr_storage own = {.ss_family = AF_UNSPEC};
	socklen_t m = sizeof(own);

	if (f->connected && f->up.fd >= 0 && getsockname(f->up.fd, (struct sockaddr *)&own, &m) == 0)
		addr_of(&own, &f->out);
}

static void dialled(struct flow *f, bool failed)
{
	if (failed) {
		loop_drop(&f->up);
		dial_next(f);
		return;
	}
	f->connected = true;
	f->connect_ms = f->b->loop->now_ms - f->dialled_ms;
	if (f->via.port == 0) {
		dial_done(f);
		return;
	}
	dial_own(f); /* it may give no tunnel, and its socket be gone then */
	proxy_begin(f);
}

void dial_done(struct flow *f)
{
	f->no_up = NULL; /* of an address before */
	if (f->away != 0) {
		if (!handover_up(f))
			flow_close(f, "overload", true);
		return;
	}
	if (!f->seen.tls_next) {
		flow_start_relay(f);
		return;
	}
	/* the request for TLS goes up, and nothing else before the server has answered */
	f->state = F_ANSWER;
	f->deadline_ms = f->b->loop->now_ms + FIRST_MS;
	f->u.readable = f->u.writable = true;
	flow_answer(f);
}

static void up_ready(struct source *s, uint32_t events)
{
	struct flow *f = FLOW_OF(s, up);

	pump_events(&f->u, events);
	if (f->state == F_DIAL) {
		if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0)
			dialled(f, (events & EPOLLERR) != 0);
		return;
	}
	if (f->state == F_RELAY)
		flow_relay(f);
	else if (f->state == F_PROXY)
		proxy_ready(f);
	else if (f->state == F_ANSWER)
		flow_answer(f);
}

void dial_next(struct flow *f)
{
	const char *why = f->no_up != NULL ? f->no_up : f->via.port != 0 ? "proxy_unreachable" : "unreachable";

	/* by name there is one try, and no address */
	while (f->addr_at < (f->by_name ? 1u : f->addr_n)) {
		const struct resolve_addr *a = f->via.port != 0 ? &f->via.addr : &f->addr[f->addr_at];
		uint16_t port = f->via.port != 0 ? f->via.port : f->dest.port;
		int fd = dial(a, port), r;

		if (!f->by_name) {
			f->tried = f->addr[f->addr_at];
			f->has_tried = true;
		}
		f->addr_at++;

		if (fd < 0 && ran_out(-fd)) {
			why = "overload";
			break;
		}
		if (fd < 0)
			continue;
		f->up = (struct source){.ready = up_ready, .fd = fd};
		f->u = (struct pump_side){.fd = fd};
		f->connected = false;
		if (loop_watch(f->b->loop, &f->up) < 0) {
			loop_drop(&f->up);
			continue;
		}
		f->state = F_DIAL;
		f->dialled_ms = f->b->loop->now_ms;
		f->deadline_ms = f->dialled_ms + f->v.limits.connect_timeout_ms;
		r = is_dialled(fd, a, port);
		if (r < 0) {
			loop_drop(&f->up);
			continue;
		}
		if (r > 0)
			dialled(f, false);
		return;
	}
	f->no_up = why;
	if (f->away != 0)
		handover_no_up(f, why);
	else
		flow_close(f, why, true);
}

/* postgres: 'S' means that TLS follows, which the rule's name must be in; anything else, that it
 * does not. */
void flow_answer(struct flow *f)
{
	struct pump_side nobody = {.fd = -1};
	uint64_t none = 0;
	char c;

	if (pump_step(&f->to_up, &nobody, &f->u, &none) == PUMP_BROKEN) {
		flow_close(f, "reset", true);
		return;
	}
	if (recv(f->up.fd, &c, 1, MSG_DONTWAIT) != 1) {
		f->u.readable = false;
		if (errno != EAGAIN && errno != EINTR)
			flow_close(f, "reset", true);
		return;
	}
	if (send(f->client.fd, &c, 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1) {
		flow_close(f, "reset", true);
		return;
	}
	f->to_client.total++;
	f->state = c == 'S' ? F_FIRST_TLS : F_RELAY;
	f->deadline_ms = f->b->loop->now_ms + FIRST_MS;
	if (c == 'S')
		first_bytes(f);
	else
		flow_start_relay(f);
}

/* ---- before ---- */

/* A pinned address is one the sandbox was told of: if the name stands for it still, that is the one. */
static void prefer_asked(struct flow *f)
{
	const struct resolve_addr *o = &f->dest.orig;

	for (uint32_t i = 1; f->dest.pinned && i < f->addr_n; i++)
		if (f->addr[i].v6 == o->v6 && memcmp(f->addr[i].a, o->a, o->v6 ? 16 : 4) == 0) {
			f->addr[i] = f->addr[0];
			f->addr[0] = *o;
		}
}

/* Write the record and dial what was judged, the way the rules name now. */
static void record_and_dial(struct flow *f, const struct resolve_result *res)
{
	const struct judge_proxy *via = judge_via(f->b->judge, &f->v);
	struct judge_record r = {.event = "connect",
				 .allow = true,
				 .reason = f->v.reason,
				 .resolved = res,
				 .dns_ms = f->dns_ms};

	if (via != NULL)
		f->via = via->at;
	flow_note(f, &r);
	r.dialed = f->addr_n > 0 ? &f->addr[0] : NULL;
	r.proxy = via != NULL ? &f->via : NULL;
	if (!box_record(f->b, &r)) {
		flow_deny(f, "audit_full", res);
		return;
	}
	f->recorded = true;
	if (first_goes_up(f))
		dial_next(f);
}

/* Judge what a name stands for. */
static void judge_and_dial(struct flow *f, const struct resolve_result *res)
{
	const char *reason = "unresolved";
	uint64_t now = f->b->loop->now_ms;

	f->addr = calloc(MAX(res->n, 1u), sizeof(*f->addr));
	if (f->addr == NULL) {
		flow_deny(f, "overload", res);
		return;
	}
	for (uint32_t i = 0; i < res->n; i++) {
		int ours = is_ours(&res->addr[i], now);

		if (ours < 0) {
			flow_deny(f, "overload", res);
			return;
		}
		if (judge_addr(f->b->judge, &f->dest, &f->v, &res->addr[i], ours != 0, &reason))
			f->addr[f->addr_n++] = res->addr[i];
	}
	if (f->addr_n == 0) {
		flow_deny(f, reason, res);
		return;
	}
	prefer_asked(f);
	record_and_dial(f, res);
}

static void resolved(void *arg, const struct resolve_result *res)
{
	struct flow *f = (struct flow *)arg;

	f->resolving = false;
	if (f->state == F_DEAD) {
		flow_free(f);
		return;
	}
	if (f->state != F_RESOLVE)
		return; /* it took too long, and was refused */
	f->dns_ms = f->b->loop->now_ms - f->asked_ms;
	judge_and_dial(f, res);
}

void flow_go_up(struct flow *f)
{
	struct resolve_result one = {.n = 1, .addr = {f->dest.orig}};
	const struct judge_proxy *via = judge_via(f->b->judge, &f->v);

	f->by_name = via != NULL && via->names && f->dest.named;
	if (f->by_name) {
		record_and_dial(f, NULL);
		return;
	}
	if (!f->dest.named) {
		judge_local(f->b->judge, &f->v, &one.addr[0]);
		judge_and_dial(f, &one);
		return;
	}
	f->state = F_RESOLVE;
	f->asked_ms = f->b->loop->now_ms;
	f->deadline_ms = f->asked_ms + f->v.limits.connect_timeout_ms;
	f->resolving = true;
	lookup(f->b, f->dest.name, resolved, f);
}

#include "relay/priv.h"

#include "base/num.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * One connection, from the sandbox's connect(2) to its end.
 *
 *   accept -> where to? -> decide -> [first bytes] -> [resolve] -> judge addresses -> record -> dial -> relay
 *
 * A no at any point is one record and a reset. The record is written before the dial, and without room for it
 * there is no dial. Only one resolution is made: what was judged is what is dialled. Both ends are
 * hostile; their bytes are moved, and of the client's first ones judged.
 */

enum flow_state { F_HELLO, F_DNS, F_RESOLVE, F_DIAL, F_RELAY, F_DEAD };
enum { HELLO_MAX = 64 * 1024, HELLO_MS = 10000, HELLO_FIRST = 2048, DNS_MS = 30000 };

struct flow {
	struct source client, up; /* first: see loop_free_later */
	struct box *b;
	struct flow *next, **at;
	enum flow_state state;
	bool counted, more, resolving;
	struct judge_dest dest;
	struct judge_verdict v;
	uint8_t *hello;
	size_t hello_n, hello_cap;
	struct judge_hello seen;
	struct resolve_addr *addr; /* that may be dialled */
	uint32_t addr_n, addr_at;
	struct pump_side c, u;
	struct pump to_up, to_client;
	uint64_t begun_ms, deadline_ms, moved_ms, last_total;
};

#define FLOW_OF(src, field) ((struct flow *)(void *)((char *)(src) - offsetof(struct flow, field)))

/* ---- the end ---- */

static void note(struct flow *f, struct judge_record *r)
{
	r->transport = "tcp";
	r->dest = &f->dest;
	r->rule = f->v.rule;
	r->would_deny = f->v.would_deny;
	r->hello = &f->seen;
}

static void reset(struct source *s)
{
	struct linger now = {.l_onoff = 1};

	if (s->fd >= 0)
		(void)setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

static void bury(struct flow *f, bool hard)
{
	if (f->state == F_DEAD)
		return;
	f->state = F_DEAD;
	if (hard) {
		reset(&f->client);
		reset(&f->up);
	}
	loop_drop(&f->client);
	loop_drop(&f->up);
	pump_done(&f->to_up);
	pump_done(&f->to_client);
	free(f->hello);
	free(f->addr);
	f->hello = NULL;
	f->addr = NULL;
	f->b->n.conns -= f->counted ? 1 : 0;
	*f->at = f->next;
	if (f->next != NULL)
		f->next->at = f->at;
	if (!f->resolving) /* else when its answer has come */
		loop_free_later(f->b->loop, f);
}

static void deny(struct flow *f, const char *reason, const struct resolve_result *res)
{
	struct judge_record r = {.event = "connect", .reason = reason, .resolved = res};

	note(f, &r);
	(void)box_record(f->b, &r); /* a no needs no room */
	bury(f, true);
}

static void close_it(struct flow *f, const char *why, bool hard)
{
	struct judge_record r = {.event = "close",
				 .allow = true,
				 .reason = "closed",
				 .close_reason = why,
				 .bytes_up = f->to_up.total,
				 .bytes_down = f->to_client.total,
				 .dur_ms = f->b->loop->now_ms - f->begun_ms};

	note(f, &r);
	(void)box_record(f->b, &r);
	bury(f, hard);
}

/* ---- relay ---- */

static void relay(struct flow *f)
{
	int err = 0;
	enum pump_result up = pump_step(&f->to_up, &f->c, &f->u, &err);
	enum pump_result down;

	if (up == PUMP_BROKEN || up == PUMP_FULL) {
		close_it(f, up == PUMP_FULL ? "bytes_up" : "reset", true);
		return;
	}
	down = pump_step(&f->to_client, &f->u, &f->c, &err);
	if (down == PUMP_BROKEN || down == PUMP_FULL) {
		close_it(f, down == PUMP_FULL ? "bytes_down" : "reset", true);
		return;
	}
	if (f->to_up.total + f->to_client.total != f->last_total) {
		f->last_total = f->to_up.total + f->to_client.total;
		f->moved_ms = f->b->loop->now_ms;
	}
	if (up == PUMP_ENDED && down == PUMP_ENDED) {
		close_it(f, "ended", false);
		return;
	}
	f->more = up == PUMP_MORE || down == PUMP_MORE;
	f->b->loop->again |= f->more;
}

/* ---- dialling ---- */

static int dial(const struct resolve_addr *a, uint16_t port)
{
	struct sockaddr_in s4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 s6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	int one = 1, fd = socket(a->v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int r;

	if (fd < 0)
		return -errno;
	memcpy(&s4.sin_addr, a->a, 4);
	memcpy(&s6.sin6_addr, a->a, 16);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	r = a->v6 ? connect(fd, (const struct sockaddr *)&s6, sizeof(s6))
		  : connect(fd, (const struct sockaddr *)&s4, sizeof(s4));
	if (r < 0 && errno != EINPROGRESS) {
		r = -errno;
		(void)close(fd);
		return r;
	}
	return fd;
}

static void up_ready(struct source *s, uint32_t events);

/* The next address that takes us. */
static void dial_next(struct flow *f)
{
	while (f->addr_at < f->addr_n) {
		const struct resolve_addr *a = &f->addr[f->addr_at++];
		int fd = dial(a, f->dest.port);

		if (fd < 0)
			continue;
		f->up = (struct source){.ready = up_ready, .fd = fd};
		f->u = (struct pump_side){.fd = fd};
		if (loop_watch(f->b->loop, &f->up) < 0) {
			loop_drop(&f->up);
			continue;
		}
		f->state = F_DIAL;
		f->deadline_ms = f->b->loop->now_ms + judge_limits(f->b->judge)->connect_timeout_ms;
		return;
	}
	close_it(f, "unreachable", true);
}

static void dialled(struct flow *f)
{
	socklen_t n = sizeof(int);
	int err = 0;

	if (getsockopt(f->up.fd, SOL_SOCKET, SO_ERROR, &err, &n) < 0 || err != 0) {
		loop_drop(&f->up);
		dial_next(f);
		return;
	}
	f->state = F_RELAY;
	f->moved_ms = f->b->loop->now_ms;
	f->u.writable = f->u.readable = true;
	f->c.writable = true;
	relay(f);
}

static void up_ready(struct source *s, uint32_t events)
{
	struct flow *f = FLOW_OF(s, up);

	if (f->state == F_DIAL) {
		if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0)
			dialled(f);
		return;
	}
	f->u.readable |= (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
	f->u.writable |= (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
	if (f->state == F_RELAY)
		relay(f);
}

/*
 * An address of this host: the kernel would pick it as the source for itself. Services that trust their own host
 * listen there, whatever range it is from. Connecting a datagram socket sends nothing.
 */
static bool is_ours(const struct resolve_addr *a)
{
	struct sockaddr_in s4 = {.sin_family = AF_INET, .sin_port = htons(9)}, l4;
	struct sockaddr_in6 s6 = {.sin6_family = AF_INET6, .sin6_port = htons(9)}, l6;
	socklen_t n4 = sizeof(l4), n6 = sizeof(l6);
	int fd = socket(a->v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool ours;

	if (fd < 0)
		return true; /* cannot tell */
	memcpy(&s4.sin_addr, a->a, 4);
	memcpy(&s6.sin6_addr, a->a, 16);
	if (a->v6)
		ours = connect(fd, (const struct sockaddr *)&s6, sizeof(s6)) == 0 &&
		       (getsockname(fd, (struct sockaddr *)&l6, &n6) < 0 ||
			memcmp(&l6.sin6_addr, a->a, 16) == 0);
	else
		ours = connect(fd, (const struct sockaddr *)&s4, sizeof(s4)) == 0 &&
		       (getsockname(fd, (struct sockaddr *)&l4, &n4) < 0 || memcmp(&l4.sin_addr, a->a, 4) == 0);
	(void)close(fd);
	return ours;
}

/* Judge what a name stands for, write the record, dial. */
static void judge_and_dial(struct flow *f, const struct resolve_result *res)
{
	struct judge_record r = {.event = "connect", .allow = true, .reason = f->v.reason, .resolved = res};
	const char *reason = "unresolved";

	f->addr = calloc(MAX(res->n, 1u), sizeof(*f->addr));
	if (f->addr == NULL) {
		deny(f, "overload", res);
		return;
	}
	for (uint32_t i = 0; i < res->n; i++)
		if (judge_addr(f->b->judge, &f->dest, &f->v, &res->addr[i], is_ours(&res->addr[i]), &reason))
			f->addr[f->addr_n++] = res->addr[i];
	if (f->addr_n == 0) {
		deny(f, reason, res);
		return;
	}
	note(f, &r);
	r.dialed = &f->addr[0];
	if (!box_record(f->b, &r)) {
		deny(f, "audit_full", res);
		return;
	}
	/* what was read to judge goes up first */
	if (pump_preload(&f->to_up, f->hello, f->hello_n) < 0) {
		deny(f, "overload", res);
		return;
	}
	free(f->hello);
	f->hello = NULL;
	dial_next(f);
}

static void resolved(void *arg, const struct resolve_result *res)
{
	struct flow *f = (struct flow *)arg;

	f->resolving = false;
	if (f->state == F_DEAD) {
		loop_free_later(f->b->loop, f);
		return;
	}
	judge_and_dial(f, res);
}

static void go_up(struct flow *f)
{
	struct resolve_result one = {.n = 1, .addr = {f->dest.orig}};

	if (!f->dest.named) {
		judge_and_dial(f, &one);
		return;
	}
	f->state = F_RESOLVE;
	f->deadline_ms = f->b->loop->now_ms + judge_limits(f->b->judge)->connect_timeout_ms;
	f->resolving = true;
	resolver_ask(f->b->resolver, f->dest.name, resolved, f);
}

/* ---- the client's first bytes ---- */

/* Read what there is into hello. 1 = something came, 0 = nothing yet, -1 = it is over. */
static int read_hello(struct flow *f)
{
	int got = 0;

	for (;;) {
		ssize_t n;

		if (f->hello_n == f->hello_cap) {
			size_t cap = f->hello_cap == 0 ? HELLO_FIRST : f->hello_cap * 2;
			uint8_t *p = cap > HELLO_MAX ? NULL : realloc(f->hello, cap);

			if (p == NULL)
				return got; /* full: judged as it is */
			f->hello = p;
			f->hello_cap = cap;
		}
		n = recv(f->client.fd, f->hello + f->hello_n, f->hello_cap - f->hello_n, MSG_DONTWAIT);
		if (n > 0) {
			f->hello_n += (size_t)n;
			got = 1;
		} else if (n < 0 && errno == EINTR) {
			continue;
		} else if (n < 0 && errno == EAGAIN) {
			return got;
		} else {
			f->c.ended = true;
			return got != 0 ? got : -1;
		}
	}
}

static void hello(struct flow *f)
{
	int got = read_hello(f), r;
	const char *reason = "hello_unparsable";

	if (got < 0) {
		deny(f, "hello_missing", NULL);
		return;
	}
	if (got == 0)
		return;
	r = judge_first(f->v.check, &f->v, &f->dest, f->hello, f->hello_n, &reason, &f->seen);
	if (r == 0 && (f->c.ended || f->hello_n >= HELLO_MAX))
		r = -1;
	if (r < 0)
		deny(f, reason, NULL);
	else if (r > 0)
		go_up(f);
}

/* Questions over TCP: two bytes of length, then the message (RFC 1035 4.2.2). */
static void dns_stream(struct flow *f)
{
	int got = read_hello(f);
	uint8_t out[1024];

	while (f->hello_n >= 2) {
		size_t n = (size_t)(f->hello[0] << 8 | f->hello[1]), m;

		if (n > 4096 || n < 12) {
			bury(f, true);
			return;
		}
		if (f->hello_n - 2 < n)
			break;
		m = names_answer(f->b, f->hello + 2, n, out + 2, sizeof(out) - 2);
		memmove(f->hello, f->hello + 2 + n, f->hello_n - 2 - n);
		f->hello_n -= 2 + n;
		out[0] = (uint8_t)(m >> 8);
		out[1] = (uint8_t)m;
		if (m == 0 || send(f->client.fd, out, m + 2, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)(m + 2)) {
			bury(f, true);
			return;
		}
	}
	if (got < 0 || f->c.ended)
		bury(f, false);
}

static void client_ready(struct source *s, uint32_t events)
{
	struct flow *f = FLOW_OF(s, client);

	f->c.readable |= (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
	f->c.writable |= (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
	switch (f->state) {
	case F_HELLO:
		hello(f);
		break;
	case F_DNS:
		dns_stream(f);
		break;
	case F_RELAY:
		relay(f);
		break;
	case F_RESOLVE:
	case F_DIAL:
		if ((events & (EPOLLHUP | EPOLLERR)) == EPOLLERR) /* reset: nobody waits any more */
			close_it(f, "client_gone", true);
		break;
	case F_DEAD:
		break;
	}
}

/* ---- the beginning ---- */

static bool take_token(struct box *b)
{
	const struct judge_limits *l = judge_limits(b->judge);
	uint64_t now = b->loop->now_ms, gained = (now - b->n.tokens_at_ms) * l->conn_rate_per_s;

	b->n.tokens_at_ms = now;
	b->n.tokens_milli = MIN(b->n.tokens_milli + gained, (uint64_t)l->burst * 1000);
	if (b->n.tokens_milli < 1000)
		return false;
	b->n.tokens_milli -= 1000;
	return true;
}

static bool is_self(const struct resolve_addr *a)
{
	static const uint8_t lo6[16] = {[15] = 1};
	uint8_t own[16];

	if (!a->v6)
		return a->a[0] == 127 ||
		       (inet_pton(AF_INET, NET_OWN4_TEXT, own) == 1 && memcmp(a->a, own, 4) == 0);
	return memcmp(a->a, lo6, 16) == 0 ||
	       (inet_pton(AF_INET6, NET_OWN6_TEXT, own) == 1 && memcmp(a->a, own, 16) == 0);
}

static void begin(struct flow *f, const struct resolve_addr *orig, uint16_t port)
{
	struct box *b = f->b;
	const struct judge_limits *l = judge_limits(b->judge);
	bool known = judge_dest(b->judge, orig, port, &f->dest);

	if (is_self(orig)) {
		deny(f, "self", NULL);
		return;
	}
	if (b->n.conns >= l->max_conns) {
		deny(f, "max_conns", NULL);
		return;
	}
	f->counted = true;
	b->n.conns++;
	if (!take_token(b)) {
		deny(f, "conn_rate", NULL);
		return;
	}
	if (port == 53 && !orig->v6) {
		f->state = F_DNS;
		f->deadline_ms = b->loop->now_ms + DNS_MS;
	} else if (!known) {
		deny(f, "no_mapping", NULL);
		return;
	} else {
		judge_decide(b->judge, &f->dest, &f->v);
		if (!f->v.allow) {
			deny(f, f->v.reason, NULL);
			return;
		}
		f->state = F_HELLO;
		f->deadline_ms = b->loop->now_ms + HELLO_MS;
	}
	if (loop_watch(b->loop, &f->client) < 0)
		deny(f, "overload", NULL);
	else if (f->state == F_HELLO && f->v.check == CHECK_NONE)
		go_up(f);
	else if (f->state == F_HELLO)
		hello(f); /* what is there already is announced too, but later */
}

static void start(struct box *b, int fd)
{
	struct flow *f = calloc(1, sizeof(*f));
	const struct judge_limits *l = judge_limits(b->judge);
	struct resolve_addr orig = {.v6 = false};
	uint16_t port = 0;
	int one = 1;

	if (f == NULL) {
		(void)close(fd);
		return;
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (net_origin(fd, &orig.v6, orig.a, &port) < 0) {
		free(f);
		(void)close(fd);
		return;
	}
	f->b = b;
	f->client = (struct source){.ready = client_ready, .fd = fd};
	f->up.fd = -1;
	f->c.fd = fd;
	f->begun_ms = b->loop->now_ms;
	pump_init(&f->to_up, l->bytes_up);
	pump_init(&f->to_client, l->bytes_down);
	f->next = b->flows;
	f->at = &b->flows;
	if (f->next != NULL)
		f->next->at = &f->next;
	b->flows = f;
	begin(f, &orig, port);
}

void flow_accept(struct box *b, int listener)
{
	for (int i = 0; i < 64; i++) {
		/* cppcheck-suppress nullPointer ; nobody wants the address */
		int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0)
			return; /* also out of descriptors: the rest waits in the kernel's queue */
		start(b, fd);
	}
	b->loop->again = true;
}

/* ---- time ---- */

static void check_time(struct flow *f)
{
	const struct judge_limits *l = judge_limits(f->b->judge);
	uint64_t now = f->b->loop->now_ms;

	switch (f->state) {
	case F_HELLO:
		if (now >= f->deadline_ms)
			deny(f, "hello_timeout", NULL);
		break;
	case F_DNS:
		if (now >= f->deadline_ms)
			bury(f, true);
		break;
	case F_RESOLVE:
		if (now >= f->deadline_ms)
			deny(f, "unresolved", NULL);
		break;
	case F_DIAL:
		if (now >= f->deadline_ms) {
			loop_drop(&f->up);
			dial_next(f);
		}
		break;
	case F_RELAY:
		if (l->idle_s != 0 && now - f->moved_ms >= (uint64_t)l->idle_s * 1000)
			close_it(f, "idle", true);
		else if (l->max_conn_s != 0 && now - f->begun_ms >= (uint64_t)l->max_conn_s * 1000)
			close_it(f, "max_conn_s", true);
		else if (f->more)
			relay(f);
		break;
	case F_DEAD:
		break;
	}
}

void flow_tick(struct box *b)
{
	struct flow *next;

	for (struct flow *f = b->flows; f != NULL; f = next) {
		next = f->next;
		check_time(f);
	}
}

void flows_close(struct box *b)
{
	while (b->flows != NULL) {
		if (b->flows->state == F_RELAY)
			close_it(b->flows, "sandbox_ended", true);
		else
			bury(b->flows, true);
	}
}

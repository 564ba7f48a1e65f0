#include "relay/priv.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "gate/drops.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * One attached sandbox: its sockets, its rules, its records. Which sandbox a connection belongs to
 * is known by the listener it came to, never by an address. Nothing is shared between sandboxes.
 *
 * Records go into a pipe that somebody else empties (records.h). It never blocks us: what finds it
 * full and would have permitted something does not happen; refusals are counted; the ends of
 * connections wait, and count as open until they are told.
 */

enum { SWEEP_MS = 250 };

#define BOX_OF(src, nr)                                                                            \
	((struct box *)(void *)((char *)((src) - (nr)) - offsetof(struct box, sock)))

static void tcp4_ready(struct source *s, uint32_t ev)
{
	(void)ev;
	flow_accept(BOX_OF(s, NET_TCP4), s->fd);
}

static void tcp6_ready(struct source *s, uint32_t ev)
{
	(void)ev;
	flow_accept(BOX_OF(s, NET_TCP6), s->fd);
}

static void dns_ready(struct source *s, uint32_t ev)
{
	(void)ev;
	names_udp(BOX_OF(s, NET_DNS4));
}

static const char *transport_of(uint8_t proto)
{
	switch (proto) {
	case IPPROTO_TCP:
		return "tcp";
	case IPPROTO_UDP:
		return "udp";
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		return "icmp";
	default:
		return "other";
	}
}

static void on_drop(struct box *b, const uint8_t *p, size_t n)
{
	struct judge_dest dest = {.named = false};
	struct judge_record r = {.event = "packet", .dest = &dest};
	struct drop d;

	if (drop_parse(p, n, &d) < 0)
		return;
	dest.port = d.port;
	dest.orig.v6 = d.v6;
	memcpy(dest.orig.a, d.dst, sizeof(d.dst));
	r.transport = transport_of(d.proto);
	r.reason = d.proto == IPPROTO_TCP ? "raw_ip" : "transport";
	(void)box_record(b, &r);
}

static void drops_ready(struct source *s, uint32_t ev)
{
	struct box *b = BOX_OF(s, NET_DROPS);
	static uint8_t msg[16384]; /* of the one thread */

	(void)ev;
	for (;;) {
		ssize_t n = recv(s->fd, msg, sizeof(msg), MSG_DONTWAIT);
		const uint8_t *p = NULL;
		size_t at = 0, len = 0;

		if (n < 0 && errno == ENOBUFS) { /* more came than fits: some were not reported */
			b->rec.lost++;
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		while (drop_next(msg, (size_t)n, &at, &p, &len) == 1)
			on_drop(b, p, len);
	}
}

static void (*const ready_of[NET_SOCKS])(struct source *s, uint32_t ev) = {
    [NET_TCP4] = tcp4_ready,
    [NET_TCP6] = tcp6_ready,
    [NET_DNS4] = dns_ready,
    [NET_DROPS] = drops_ready,
    [NET_DIAG] = NULL, /* answers are taken where it is asked */
    [NET_RULES] = NULL, /* never the gate's */
};

/* ---- records ---- */

static bool write_record(struct box *b, const struct judge_record *r)
{
	/* a sandbox of this tier lives once and is never copied: one id says all three */
	struct judge_who who = {
	    .task = b->task, .sandbox = b->id, .lifecycle = b->id, .lineage = b->id, .tier = b->tier};

	return records_write(&b->rec, b->judge, r, &who);
}

/* What was only counted, once its window is over, or there is room for what had none. */
static void write_repeats(struct box *b, bool all)
{
	struct judge_record r;

	while (judge_repeats(b->judge, b->loop->now_ms, all, &r))
		if (!write_record(b, &r)) {
			(void)judge_unwritten(b->judge, &r);
			return;
		}
}

bool box_record(struct box *b, struct judge_record *r)
{
	const struct judge_limits *l = judge_limits(b->judge);
	bool ok = !judge_note(b->judge, r, b->loop->now_ms);
	uint32_t uid;

	if (!ok) { /* it is to be written */
		if (!r->allow && who_has(b, r, &uid))
			r->uid = &uid;
		ok = write_record(b, r);
		r->uid = NULL;
	}
	if (!ok && !r->allow && !judge_unwritten(b->judge, r))
		b->rec.lost++;
	if (!r->allow && l->kill_after != 0 && judge_denied(b->judge) >= l->kill_after &&
	    !b->kill_wanted) {
		b->kill_wanted = true;
		b->kill(b, "its rules end a sandbox after so many refused attempts");
	}
	return ok;
}

int box_resolver(struct box *b, const struct judge *j, struct resolver **ret, struct err *e)
{
	const char *servers = judge_resolvers(j) != NULL ? judge_resolvers(j) : b->resolvers;
	int r = resolver_new(b->loop, servers, ret);

	return r < 0 ? err_set(e, ERR_INVALID, -r, "resolvers '%s': %s", servers, strerror(-r)) : 0;
}

/* There is room in the pipe: ends first, they hold places. */
static void tell_rest(struct box *b)
{
	flows_told(b);
	write_repeats(b, b->ends);
}

static void rec_ready(struct source *s, uint32_t ev)
{
	struct box *b = (struct box *)(void *)((char *)s - offsetof(struct box, rec.pipe));

	b->rec.broken |= (ev & EPOLLERR) != 0;
	tell_rest(b);
}

int box_open(struct loop *l, const struct gate_ask *q, const char *rules, const char *resolvers, int rec_fd,
	     struct box **ret, struct err *e)
{
	struct box *b = calloc(1, sizeof(*b));
	int r;

	if (b == NULL || (b->resolvers = strdup(resolvers)) == NULL) {
		free(b);
		return err_no_memory(e);
	}
	memcpy(b->id, q->sandbox, sizeof(b->id));
	memcpy(b->tier, q->tier, sizeof(b->tier));
	memcpy(b->task, q->task, sizeof(b->task));
	b->loop = l;
	records_init(&b->rec, rec_ready);
	b->over_end = &b->over;
	b->turn_left = TURN_BYTES;
	for (int i = 0; i < NET_SOCKS; i++)
		b->sock[i] = (struct source){.ready = ready_of[i], .fd = -1};
	r = judge_new(rules, q->text_n, &b->judge, e);
	if (r == 0)
		r = box_take_secret(b, b->judge, NULL, rules + q->text_n, q->secret_n, &b->proxy_secret, e);
	if (r == 0)
		r = box_resolver(b, b->judge, &b->resolver, e);
	if (r < 0) {
		box_free(b);
		return r;
	}
	b->rec.pipe.fd = rec_fd;
	r = loop_watch(l, &b->rec.pipe);
	if (r < 0) {
		b->rec.pipe.fd = -1; /* the caller's still */
		box_free(b);
		return err_set(e, ERR_INTERNAL, -r, "watching the pipe for records: %s", strerror(-r));
	}
	*ret = b;
	return 0;
}

int box_sockets(struct box *b, const int fds[NET_SOCKS], struct err *e)
{
	struct linger reset = {.l_onoff = 1};
	int r = 0, one = 1;

	for (int i = 0; i < NET_SOCKS; i++) {
		b->sock[i].fd = fds[i];
		if (fds[i] >= 0 && (i == NET_TCP4 || i == NET_TCP6)) { /* accepted ones inherit it */
			(void)setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
			(void)setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)); /* see flow.c */
		}
		if (fds[i] >= 0 && r == 0 && ready_of[i] != NULL)
			r = loop_watch(b->loop, &b->sock[i]);
	}
	if (r == 0)
		return 0;
	for (int i = 0; i < NET_SOCKS; i++) { /* the caller's still */
		if (b->sock[i].fd >= 0)
			loop_unwatch(b->loop, &b->sock[i]);
		b->sock[i].fd = -1;
	}
	return err_set(e, ERR_INTERNAL, -r, "watching the sandbox's sockets: %s", strerror(-r));
}

void box_look(struct box *b)
{
	enum { ROUNDS = 1024 / TURN_ACCEPTS + 1 }; /* of as much as a queue holds; what runs yet may go on asking */

	b->kill_wanted = true;
	b->again = true;
	for (int k = 0; k < ROUNDS && b->again; k++) {
		b->again = false;
		for (int i = 0; i < NET_SOCKS; i++)
			if (b->sock[i].fd >= 0 && b->sock[i].ready != NULL)
				b->sock[i].ready(&b->sock[i], 0);
	}
}

void box_end(struct box *b)
{
	b->ends = true;
	for (int i = 0; i < NET_SOCKS; i++)
		loop_drop(&b->sock[i]);
	flows_close(b);
	tell_rest(b);
}

bool box_over(struct box *b)
{
	struct judge_record r;

	if (!b->ends || b->rec.broken)
		return b->ends;
	if (b->over != NULL)
		return false;
	if (!judge_repeats(b->judge, b->loop->now_ms, true, &r))
		return true;
	(void)judge_unwritten(b->judge, &r);
	return false;
}

void box_free(struct box *b)
{
	b->rec.broken = true; /* whatever ends now waits no more */
	flows_close(b);
	flows_told(b);
	records_done(&b->rec); /* before the rest: somebody waits for the pipe's end */
	for (int i = 0; i < NET_SOCKS; i++)
		loop_drop(&b->sock[i]);
	resolver_free(b->resolver);
	lookups_free(b);
	judge_free(b->judge);
	box_wipe(b->proxy_secret);
	free(b->resolvers);
	loop_free_later(b->loop, b);
}

/* ---- time ---- */

static void sweep(struct box *b)
{
	b->sweep_at_ms = b->loop->now_ms + SWEEP_MS;
	flows_sweep(b);
	write_repeats(b, false);
}

int box_tick(struct box *b)
{
	bool due = b->loop->now_ms >= b->sweep_at_ms, again = b->again;
	int wait = resolver_wait(b->resolver);

	b->again = false;
	b->turn_left = TURN_BYTES;
	if (wait >= 0)
		resolver_tick(b->resolver);
	flows_busy(b);
	if (due)
		sweep(b);
	if (again || due) {
		/* events are edges: what was left in a queue is not announced again */
		for (int i = NET_TCP4; i <= NET_TCP6; i++)
			if (b->sock[i].fd >= 0)
				flow_accept(b, b->sock[i].fd);
		if (b->sock[NET_DNS4].fd >= 0)
			names_udp(b);
	}
	if (b->loop->idle)
		records_settle(&b->rec);
	b->loop->again |= b->again || b->busy != NULL || records_unsettled(&b->rec);
	if (b->flows == NULL && wait < 0)
		return -1;
	return wait >= 0 ? MIN(wait, (int)SWEEP_MS) : SWEEP_MS;
}

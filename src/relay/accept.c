#include "relay/handover.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * The beginning of a connection: the listener says whose it is, the accepted socket where it wanted
 * to go. A sandbox that opens connections faster than they are taken waits in the kernel's queue,
 * not in ours.
 */

static struct spares spare = {.max = 32}; /* of the one thread */

void flow_free(struct flow *f) { loop_spare_later(f->b->loop, &spare, f); }

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

static void begin_questions(struct flow *f)
{
	if (f->b->streams >= BOX_STREAMS_MAX) {
		flow_deny(f, "max_conns", NULL);
		return;
	}
	f->b->streams++;
	f->state = F_DNS;
	f->deadline_ms = f->b->loop->now_ms + DNS_MS;
	if (loop_watch(f->b->loop, &f->client) < 0)
		flow_deny(f, "overload", NULL);
}

/* Several names stand for the address: what the client says first is looked at, and left where it is. */
static void begin_pick(struct flow *f)
{
	const char *reason = NULL;

	f->state = F_PICK;
	f->deadline_ms = f->b->loop->now_ms + FIRST_MS;
	f->counted = judge_open(f->b->judge, NULL, f->b->loop->now_ms, &reason);
	if (!f->counted)
		flow_deny(f, reason, NULL);
	else if (loop_watch(f->b->loop, &f->client) < 0)
		flow_deny(f, "overload", NULL);
	else
		pick_name(f);
}

void flow_decide(struct flow *f)
{
	struct judge *j = f->b->judge;
	const char *reason = NULL;
	bool watched = f->state == F_PICK;

	f->state = F_FIRST;
	judge_decide(j, &f->dest, &f->v);
	if (!f->v.allow) {
		flow_deny(f, f->v.reason, NULL);
		return;
	}
	f->counted = f->counted || judge_open(j, NULL, f->b->loop->now_ms, &reason);
	f->ruled = f->counted && judge_open(j, &f->v, f->b->loop->now_ms, &reason);
	if (!f->ruled) {
		flow_deny(f, reason, NULL);
		return;
	}
	if (handover_wants(f)) {
		if (watched)
			loop_unwatch(f->b->loop, &f->client);
		if (!handover_take(f))
			flow_deny(f, "overload", NULL);
		return;
	}
	if (!watched)
		f->deadline_ms = f->b->loop->now_ms + FIRST_MS;
	if (!watched && loop_watch(f->b->loop, &f->client) < 0)
		flow_deny(f, "overload", NULL);
	else if (f->v.check == CHECK_NONE)
		flow_go_up(f);
	else
		first_bytes(f); /* what is there already is announced too, but later */
}

static void begin(struct flow *f, const struct resolve_addr *orig, uint16_t port)
{
	bool known = judge_dest(f->b->judge, orig, port, &f->dest);

	if (is_self(orig)) {
		flow_deny(f, "self", NULL);
		return;
	}
	if (f->b->kill_wanted) {
		flow_deny(f, "no_sandbox", NULL);
		return;
	}
	if (port == 53 && !orig->v6) {
		begin_questions(f);
		return;
	}
	if (!known) {
		flow_deny(f, "no_mapping", NULL);
		return;
	}
	if (f->dest.choice) {
		begin_pick(f);
		return;
	}
	flow_decide(f);
}

static void peer_of(const struct sockaddr_storage *ss, struct judge_peer *ret)
{
	struct sockaddr_in s4;
	struct sockaddr_in6 s6;

	*ret = (struct judge_peer){.addr = {.v6 = ss->ss_family == AF_INET6}};
	if (ss->ss_family == AF_INET) {
		memcpy(&s4, ss, sizeof(s4));
		memcpy(ret->addr.a, &s4.sin_addr, 4);
		ret->port = ntohs(s4.sin_port);
	} else if (ret->addr.v6) {
		memcpy(&s6, ss, sizeof(s6));
		memcpy(ret->addr.a, &s6.sin6_addr, 16);
		ret->port = ntohs(s6.sin6_port);
	}
}

static void start(struct box *b, int fd, const struct sockaddr_storage *from)
{
	struct flow *f = (struct flow *)loop_spare(&spare, sizeof(*f));
	struct resolve_addr orig = {.v6 = false};
	uint16_t port = 0;

	if (f == NULL || net_origin(fd, &orig.v6, orig.a, &port) < 0) {
		b->rec.lost++; /* there is nothing to say of it */
		if (f != NULL)
			loop_spare_later(b->loop, &spare, f);
		(void)close(fd);
		return;
	}
	f->b = b;
	f->state = F_FIRST;
	f->client = (struct source){.ready = client_ready, .fd = fd};
	f->up.fd = -1;
	f->c.fd = fd;
	f->begun_ms = b->loop->now_ms;
	peer_of(from, &f->src);
	pump_init(&f->to_up);
	pump_init(&f->to_client);
	f->next = b->flows;
	f->at = &b->flows;
	if (f->next != NULL)
		f->next->at = &f->next;
	b->flows = f;
	begin(f, &orig, port);
}

void flow_accept(struct box *b, int listener)
{
	for (int i = 0; i < TURN_ACCEPTS; i++) {
		struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
		socklen_t n = sizeof(from);
		int fd =
		    accept4(listener, (struct sockaddr *)&from, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0)
			return; /* also out of descriptors: the rest waits until the next sweep */
		start(b, fd, &from);
	}
	b->again = true;
}

#include "inspect/priv.h"

#include "base/num.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/*
 * One connection that was handed over.
 *
 *   first message judged -> TLS with the client -> a request permitted -> DIAL -> TLS with the server -> requests
 *
 * Both ends are hostile. Each end has two bounded buffers; a step moves what can be moved, one direction after the
 * other, until nothing moves or its turn is used up.
 */

enum {
	HELLO_BYTES_MAX = 64 * 1024,
	HELLO_MS = 10000,
	SHAKE_MS = 15000,
	HEAD_MS = 30000,
	LINGER_MS = 2000,
	TURN_BYTES = 1 << 20,
};

static struct spares spare = {.max = 32}; /* of the one thread */

#define CONN_OF(src, side) ((struct conn *)(void *)((char *)(src) - offsetof(struct conn, side)))


static uint64_t bytes_up(const struct conn *k) { return k->u.put; }
static uint64_t bytes_down(const struct conn *k) { return k->u.got; }

void conn_end(struct conn *k, const char *why, bool hard)
{
	struct inspect_tell t = {.kind = INSPECT_CLOSED,
				 .flow = k->flow,
				 .up = bytes_up(k) - k->told_up,
				 .down = bytes_down(k) - k->told_down};

	if (k->state == C_DEAD)
		return;
	if (k->x.open && !k->x.recorded) /* it went out and no answer came */
		(void)exchange_record(k, true, "allowed", 0);
	k->state = C_DEAD;
	side_close(&k->c, hard);
	side_close(&k->u, hard);
	exchange_end(&k->x);
	(void)snprintf(t.reason, sizeof(t.reason), "%s", why);
	(void)tell_gate(&t);
	*k->at = k->next;
	if (k->next != NULL)
		k->next->at = k->at;
	loop_spare_later(k->b->loop, &spare, k);
}

void conn_drop(struct conn *k, const char *why) { conn_end(k, why, true); }

static void put_hello(const struct conn *k, struct inspect_tell *t)
{
	(void)snprintf(t->sni, sizeof(t->sni), "%s", k->hello.sni);
	(void)snprintf(t->alpn, sizeof(t->alpn), "%s", k->hello.alpn);
	t->ech = k->hello.ech;
}

static void record_refusal(const struct conn *k, const char *reason)
{
	struct inspect_tell t = {.kind = INSPECT_RECORD, .what = INSPECT_CONNECT, .flow = k->flow};

	put_hello(k, &t);
	(void)snprintf(t.reason, sizeof(t.reason), "%s", reason);
	(void)tell_gate(&t);
}

/* Refused before there was a request. */
static void deny(struct conn *k, const char *reason)
{
	record_refusal(k, reason);
	conn_end(k, reason, true);
}

void conn_no_request(struct conn *k, uint32_t status, const char *reason)
{
	record_refusal(k, reason);
	exchange_answer(k, status, reason);
}

bool conn_decide(struct conn *k)
{
	judge_decide(k->b->judge, &k->dest, &k->v);
	if (!k->v.allow || k->v.inspect != k->tls || (!k->tls && k->v.check != CHECK_HTTP))
		return false;
	k->http = judge_http(k->b->judge, k->v.rule_nr);
	k->may_inject = k->tls || k->http->plaintext_inject;
	k->redacts = false;
	k->marks_ok = 0;
	for (uint32_t i = 0; k->may_inject && i < k->http->inject_n; i++) {
		const struct judge_inject *x = &k->http->inject[i];

		k->redacts |= x->redact_response;
		for (uint32_t m = 0; x->placeholder != NULL && m < k->b->marks_n; m++)
			if (strcmp(k->b->mark[m], x->placeholder) == 0)
				k->marks_ok |= UINT64_C(1) << m;
	}
	return true;
}

/* ---- the server's end ---- */

void conn_dial(struct conn *k)
{
	struct inspect_tell t = {.kind = INSPECT_DIAL, .flow = k->flow};

	k->waits = true;
	k->up = UP_ASKED;
	put_hello(k, &t);
	(void)tell_gate(&t);
}

static void mark(struct side *s, uint32_t events)
{
	s->readable |= (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
	s->writable |= (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
}

static void client_ready(struct source *s, uint32_t events)
{
	struct conn *k = CONN_OF(s, c.src);

	mark(&k->c, events);
	conn_step(k);
}

static void server_ready(struct source *s, uint32_t events)
{
	struct conn *k = CONN_OF(s, u.src);

	mark(&k->u, events);
	conn_step(k);
}

void conn_up(struct conn *k, int fd)
{
	side_open(&k->u, fd);
	k->u.src.ready = server_ready;
	if (k->up != UP_ASKED || loop_watch(k->b->loop, &k->u.src) < 0 ||
	    (k->tls && side_tls(&k->u, authority_client(k->b->ca, k->dest.name)) < 0)) {
		conn_end(k, "overload", true);
		return;
	}
	k->up = UP_SHAKE;
	k->deadline_ms = k->b->loop->now_ms + SHAKE_MS;
	conn_step(k);
}

/* The gate has recorded why. */
void conn_no_up(struct conn *k, const char *reason)
{
	k->waits = false;
	exchange_answer(k, strcmp(reason, "unresolved") == 0 || judge_reason(reason) == NULL ? 502 : 403, reason);
	conn_step(k);
}

static bool shake_server(struct conn *k)
{
	int r = side_shake(&k->u);

	if (r == 0)
		return false;
	if (r < 0) {
		k->waits = false;
		exchange_refuse(k, 502, k->u.cert_bad ? "upstream_cert" : "upstream_error");
		return true;
	}
	k->up = UP_READY;
	k->waits = false;
	k->deadline_ms = 0;
	return true;
}

/* ---- the client's end ---- */

static bool hello(struct conn *k)
{
	const char *reason = "hello_unparsable";
	size_t n = side_early(&k->c, HELLO_BYTES_MAX);
	int r;

	if (k->c.broken || (k->c.ended && k->c.early.len == 0)) {
		deny(k, "hello_missing");
		return false;
	}
	if (n == 0 && !k->c.ended)
		return false;
	r = judge_first(k->v.check, &k->v, &k->dest, buf_head(&k->c.early), k->c.early.len, &reason, &k->hello);
	if (r < 0 || (r == 0 && (k->c.ended || k->c.early.len >= HELLO_BYTES_MAX))) {
		deny(k, reason);
		return false;
	}
	if (r == 0)
		return true;
	if (side_tls(&k->c, authority_server(k->b->ca, k->dest.name)) < 0) {
		deny(k, "overload");
		return false;
	}
	k->state = C_SHAKE;
	k->deadline_ms = k->b->loop->now_ms + SHAKE_MS;
	return true;
}

static bool shake_client(struct conn *k)
{
	int r = side_shake(&k->c);

	if (r < 0) { /* TLS has told the client why, which a reset would overtake */
		record_refusal(k, "client_tls");
		conn_end(k, "client_tls", false);
		return false;
	}
	if (r == 0)
		return false;
	k->state = C_HTTP;
	k->deadline_ms = k->b->loop->now_ms + HEAD_MS;
	return true;
}

void conn_linger(struct conn *k)
{
	k->state = C_LINGER;
	k->deadline_ms = k->b->loop->now_ms + LINGER_MS;
	side_close(&k->u, false);
	k->up = UP_NONE;
}

/* ---- a step ---- */

static bool step_once(struct conn *k)
{
	switch (k->state) {
	case C_HELLO:
		return hello(k);
	case C_SHAKE:
		return shake_client(k);
	case C_HTTP:
		if (k->c.broken) {
			conn_end(k, "reset", true);
			return false;
		}
		if (k->up == UP_SHAKE && shake_server(k))
			return true;
		if (request_step(k))
			return true;
		return k->state == C_HTTP && response_step(k);
	case C_TUNNEL:
		return tunnel_step(k);
	case C_LINGER:
		return linger_step(k);
	case C_DEAD:
		break;
	}
	return false;
}

void conn_step(struct conn *k)
{
	uint64_t begun = k->c.got + k->u.got;
	bool moved = true;

	k->more = false;
	while (moved && k->state != C_DEAD) {
		moved = step_once(k);
		if (k->state == C_DEAD)
			return;
		moved |= side_flush(&k->c);
		moved |= k->u.src.fd >= 0 && side_flush(&k->u);
		if (k->c.got + k->u.got - begun >= TURN_BYTES) { /* the others' turn */
			k->more = k->b->loop->again = true;
			break;
		}
	}
	if (k->c.got + k->u.got != begun)
		k->moved_ms = k->b->loop->now_ms;
}

void conn_take(struct box *b, const struct inspect_hand *h, int fd)
{
	struct conn *k = (struct conn *)loop_spare(&spare, sizeof(*k));
	bool allowed;

	if (k == NULL) {
		struct inspect_tell t = {.kind = INSPECT_CLOSED, .flow = h->flow, .reason = "overload"};

		(void)close(fd);
		(void)tell_gate(&t);
		return;
	}
	k->b = b;
	k->flow = h->flow;
	k->dest = (struct judge_dest){.named = true, .port = h->port};
	(void)snprintf(k->dest.name, sizeof(k->dest.name), "%s", h->name);
	side_init(&k->c);
	side_init(&k->u);
	exchange_begin(&k->x);
	k->next = b->conns;
	k->at = &b->conns;
	if (k->next != NULL)
		k->next->at = &k->next;
	b->conns = k;
	k->begun_ms = k->moved_ms = b->loop->now_ms;
	side_open(&k->c, fd);
	k->c.src.ready = client_ready;
	judge_decide(b->judge, &k->dest, &k->v);
	k->tls = k->v.inspect;
	allowed = conn_decide(k) && (!k->tls || b->ca != NULL);
	k->state = k->tls ? C_HELLO : C_HTTP;
	k->deadline_ms = b->loop->now_ms + HELLO_MS;
	if (!allowed)
		deny(k, k->v.allow ? "proto_mismatch" : k->v.reason);
	else if (loop_watch(b->loop, &k->c.src) < 0)
		deny(k, "overload");
	else
		conn_step(k);
}

/* ---- time ---- */

static void too_late(struct conn *k)
{
	k->deadline_ms = 0;
	if (k->state == C_HELLO) {
		deny(k, "hello_timeout");
	} else if (k->state == C_SHAKE) {
		deny(k, "client_tls");
	} else if (k->state == C_HTTP && k->up == UP_SHAKE) {
		k->waits = false;
		exchange_refuse(k, 504, "upstream_error");
		conn_step(k);
	} else if (k->state == C_HTTP && !k->x.open && k->requests == 0) {
		conn_no_request(k, 408, "hello_timeout");
		conn_step(k);
	} else if (k->state == C_HTTP && !k->x.open && k->c.in.len > 0) {
		exchange_refuse(k, 408, "http_unparsable");
		conn_step(k);
	} else if (k->state == C_LINGER) {
		conn_end(k, "ended", k->c.out.len > 0);
	}
}

void conn_tick(struct conn *k)
{
	uint64_t now = k->b->loop->now_ms;
	struct inspect_tell t = {.kind = INSPECT_MOVED, .flow = k->flow};

	if (k->more)
		conn_step(k);
	if (k->state == C_DEAD)
		return;
	t.up = bytes_up(k) - k->told_up;
	t.down = bytes_down(k) - k->told_down;
	if (t.up != 0 || t.down != 0) {
		k->told_up += t.up;
		k->told_down += t.down;
		(void)tell_gate(&t);
	}
	if (k->deadline_ms != 0 && now >= k->deadline_ms)
		too_late(k);
	else if (k->v.limits.idle_s != 0 && now - k->moved_ms >= (uint64_t)k->v.limits.idle_s * 1000)
		conn_end(k, "idle", true);
	else if (k->v.limits.max_conn_s != 0 && now - k->begun_ms >= (uint64_t)k->v.limits.max_conn_s * 1000)
		conn_end(k, "max_conn_s", true);
}

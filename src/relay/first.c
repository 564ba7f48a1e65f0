#include "relay/flow_priv.h"

#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/*
 * What the client says before anything of it goes up, and questions for names over TCP. However
 * slowly and in however many pieces it comes: it is judged when it is whole, at most FIRST_MAX
 * bytes and FIRST_MS long; all that one sandbox has held back is at most BOX_FIRST_MAX.
 */

static bool grow(struct flow *f)
{
	size_t cap = f->first_cap == 0 ? FIRST_ROOM : f->first_cap * 2;
	uint8_t *p;

	if (cap > FIRST_MAX || f->b->first_room + (cap - f->first_cap) > BOX_FIRST_MAX)
		return false;
	p = realloc(f->first, cap);
	if (p == NULL)
		return false;
	f->b->first_room += cap - f->first_cap;
	f->first = p;
	f->first_cap = cap;
	return true;
}

/* Read what there is. 1 = something came, 0 = nothing yet, -1 = it is over. A silent client costs
 * no memory. */
static int read_first(struct flow *f)
{
	static uint8_t start[FIRST_ROOM]; /* of the one thread */
	int got = 0;

	for (;;) {
		ssize_t n;

		if (f->first_cap == 0) {
			n = recv(f->client.fd, start, sizeof(start), MSG_DONTWAIT);
			if (n > 0 && !grow(f))
				return got; /* the caller sees that there is no room */
			if (n > 0)
				memcpy(f->first, start, (size_t)n);
		} else if (f->first_n == f->first_cap && !grow(f)) {
			return got; /* full: judged as it is */
		} else {
			n = recv(f->client.fd, f->first + f->first_n, f->first_cap - f->first_n,
				 MSG_DONTWAIT);
		}
		if (n > 0) {
			f->first_n += (size_t)n;
			got = 1;
		} else if (n < 0 && errno == EINTR) {
			continue;
		} else if (n < 0 && errno == EAGAIN) {
			f->c.readable = false;
			return got;
		} else {
			f->c.ended = true;
			return got != 0 ? got : -1;
		}
	}
}

static void refuse(struct flow *f, const char *reason)
{
	if (f->recorded) { /* postgres: the connection was permitted, what came inside is not */
		struct judge_record r = {.event = "connect", .reason = reason};

		flow_note(f, &r);
		(void)box_record(f->b, &r);
		flow_close(f, reason, true);
		return;
	}
	flow_deny(f, reason, NULL);
}

bool first_goes_up(struct flow *f)
{
	if (pump_preload(&f->to_up, f->first, f->first_n) < 0) {
		flow_close(f, "overload", true);
		return false;
	}
	f->b->first_room -= f->first_cap;
	free(f->first);
	f->first = NULL;
	f->first_n = f->first_cap = 0;
	return true;
}

/* The ClientHello that follows postgres' request for TLS is good: it goes up, and what follows. */
static void pass_on(struct flow *f)
{
	if (first_goes_up(f))
		flow_start_relay(f);
}

void first_bytes(struct flow *f)
{
	bool tls_next = f->state == F_FIRST_TLS;
	int got = read_first(f), r;
	const char *reason = "hello_unparsable";

	if (got < 0) {
		refuse(f, "hello_missing");
		return;
	}
	if (f->first_n == 0 && !f->c.readable)
		return;
	if (f->first_n == 0) {
		refuse(f, "overload");
		return;
	}
	r = judge_first(tls_next ? CHECK_POSTGRES_TLS : f->v.check, &f->v, &f->dest, f->first,
			f->first_n, &reason, &f->seen);
	/* no more will come, or no more is taken */
	if (r == 0 && f->first_n == f->first_cap && f->first_cap < FIRST_MAX)
		reason = "overload";
	if (r == 0 && (f->c.ended || f->first_n == f->first_cap))
		r = -1;
	if (r < 0)
		refuse(f, reason);
	else if (r > 0 && tls_next)
		pass_on(f);
	else if (r > 0)
		flow_go_up(f);
}

/* Looking takes nothing out of the socket: whoever is to read it, we or the process that reads HTTP, finds all of it. */
void pick_name(struct flow *f)
{
	static uint8_t seen[FIRST_MAX]; /* of the one thread */
	ssize_t n = recv(f->client.fd, seen, sizeof(seen), MSG_PEEK | MSG_DONTWAIT);
	const char *reason = "hello_missing";
	int r;

	if (n == 0) {
		flow_deny(f, reason, NULL);
		return;
	}
	r = judge_pick(f->b->judge, &f->dest, seen, (size_t)MAX(n, 0), &reason);
	if (r == 0 && n == FIRST_MAX) {
		r = -1;
		reason = "hello_unparsable";
	}
	if (r < 0)
		flow_deny(f, reason, NULL);
	else if (r > 0)
		flow_decide(f);
}

/* ---- questions: two bytes of length, then the message (RFC 1035 4.2.2) ---- */

enum { QUESTION_MAX = 4096, QUESTION_MIN = 12, ANSWER_MAX = 512 };

static bool answer(struct flow *f, const struct judge_dns *d, uint8_t *out, size_t m)
{
	struct judge_peer server = {.addr = f->dest.orig, .port = f->dest.port};

	if (d->denied)
		names_record(f->b, d, "tcp", &f->src, &server);
	out[0] = (uint8_t)(m >> 8);
	out[1] = (uint8_t)m;
	return m > 0 &&
	       send(f->client.fd, out, m + 2, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)(m + 2);
}

static void next_question(struct flow *f, size_t n)
{
	memmove(f->first, f->first + 2 + n, f->first_n - 2 - n);
	f->first_n -= 2 + n;
}

static void resolved(void *arg, const struct resolve_result *res)
{
	struct flow *f = (struct flow *)arg;
	uint8_t out[ANSWER_MAX + 2];
	struct judge_dns d = {.denied = false};
	size_t n, m;

	f->resolving = false;
	if (f->state == F_DEAD) {
		flow_free(f);
		return;
	}
	n = (size_t)(f->first[0] << 8 | f->first[1]);
	m = judge_dns_resolved(f->b->judge, f->first + 2, n, res, out + 2, ANSWER_MAX, &d);
	next_question(f, n);
	if (!answer(f, &d, out, m))
		flow_bury(f, true);
	else if (!f->streaming)
		dns_stream(f); /* more questions may have come */
}

void dns_stream(struct flow *f)
{
	uint8_t out[ANSWER_MAX + 2];
	int got;

	if (f->resolving)
		return;
	got = read_first(f);
	if (got == 0 && f->first_n == 0 && f->c.readable) { /* no room */
		flow_bury(f, true);
		return;
	}
	while (f->first_n >= 2) {
		size_t n = (size_t)(f->first[0] << 8 | f->first[1]), m;
		struct judge_dns d = {.denied = false};

		if (n > QUESTION_MAX || n < QUESTION_MIN) {
			flow_bury(f, true);
			return;
		}
		if (f->first_n - 2 < n)
			break;
		m = judge_dns(f->b->judge, f->first + 2, n, out + 2, ANSWER_MAX, &d);
		if (d.wait) {
			f->resolving = f->streaming = true;
			lookup(f->b, d.name, resolved, f);
			f->streaming = false;
			if (f->state == F_DEAD || f->resolving)
				return;
			continue;
		}
		next_question(f, n);
		if (!answer(f, &d, out, m)) {
			flow_bury(f, true);
			return;
		}
	}
	if (got < 0 || f->c.ended)
		flow_bury(f, false);
}

#include "relay/handover.h"

#include "base/num.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/*
 * A connection while it is there: what its events mean, its bytes, its clocks, and how it ends. The
 * sandbox's share of a turn is counted in bytes: a connection that finds it used up waits in the
 * list of busy ones.
 */

/* ---- busy ones ---- */

static void busy(struct flow *f)
{
	if (f->busy_at != NULL)
		return;
	if (f->b->busy == NULL)
		f->b->busy_end = &f->b->busy;
	f->busy_next = NULL;
	f->busy_at = f->b->busy_end;
	*f->busy_at = f;
	f->b->busy_end = &f->busy_next;
}

static void not_busy(struct flow *f)
{
	if (f->busy_at == NULL)
		return;
	*f->busy_at = f->busy_next;
	if (f->busy_next != NULL)
		f->busy_next->busy_at = f->busy_at;
	else
		f->b->busy_end = f->busy_at;
	f->busy_at = NULL;
}

void flows_busy(struct box *b)
{
	while (b->busy != NULL && b->turn_left > 0) {
		struct flow *f = b->busy;

		not_busy(f);
		flow_relay(f); /* the last of the list again, if it is not through */
	}
}

/* ---- the end ---- */

void flow_note(struct flow *f, struct judge_record *r)
{
	r->transport = "tcp";
	r->dest = &f->dest;
	r->rule = f->v.rule;
	r->would_deny = f->v.would_deny;
	r->fronting = r->allow && f->v.check == CHECK_TLS && !f->v.inspect;
	r->hello = &f->seen;
	r->src = &f->src;
}

/* Sockets are reset when they are closed, by whatever ends this process too, unless both ends have ended in order: half of
 * something must not look whole. */
static void in_order(const struct source *s)
{
	struct linger off = {.l_onoff = 0};

	if (s->fd >= 0)
		(void)setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &off, sizeof(off));
}

/* Give back everything but its place among the connections. */
static void release(struct flow *f, bool hard)
{
	struct box *b = f->b;

	b->streams -= f->state == F_DNS ? 1 : 0;
	if (f->away != 0)
		handover_forget(f);
	if (!hard) {
		in_order(&f->client);
		in_order(&f->up);
	}
	loop_drop(&f->client);
	loop_drop(&f->up);
	pump_done(&f->to_up);
	pump_done(&f->to_client);
	b->first_room -= f->first_cap;
	free(f->first);
	free(f->addr);
	f->first = NULL;
	f->first_cap = 0;
	f->addr = NULL;
	not_busy(f);
}

void flow_bury(struct flow *f, bool hard)
{
	struct box *b = f->b;

	if (f->state == F_DEAD)
		return;
	release(f, hard);
	f->state = F_DEAD;
	if (f->ruled)
		judge_close(b->judge, &f->v);
	if (f->counted)
		judge_close(b->judge, NULL);
	*f->at = f->next;
	if (f->next != NULL)
		f->next->at = f->at;
	if (!f->resolving) /* else when its answer has come */
		flow_free(f);
}

void flow_deny(struct flow *f, const char *reason, const struct resolve_result *res)
{
	struct judge_record r = {
	    .event = "connect", .reason = reason, .resolved = res, .dns_ms = f->dns_ms};

	flow_note(f, &r);
	(void)box_record(f->b, &r); /* a no needs no room */
	if (f->away != 0 && (f->state == F_RESOLVE || f->state == F_DIAL || f->state == F_PROXY))
		handover_no_up(f, reason);
	else
		flow_bury(f, true);
}

static bool tell_end(struct flow *f)
{
	struct judge_record r = {.event = "close",
				 .allow = true,
				 .reason = "closed",
				 .close_reason = f->why,
				 .bytes_up = f->to_up.total,
				 .bytes_down = f->to_client.total,
				 .dur_ms = f->moved_ms - f->begun_ms};

	flow_note(f, &r);
	r.proxy = f->via.port != 0 ? &f->via : NULL;
	r.dialed = f->has_tried ? &f->tried : NULL;
	if (f->out.port != 0) {
		r.local_out = &f->out;
		r.connect_ms = f->connect_ms;
	}
	return box_record(f->b, &r);
}

/* So many ends may come at once that the pipe does not take them: each then keeps its place, which limits count, until it is
 * told. There are never more of them than there were connections. */
void flow_close(struct flow *f, const char *why, bool hard)
{
	(void)snprintf(f->why, sizeof(f->why), "%s", why);
	f->moved_ms = f->b->loop->now_ms;
	dial_own(f);
	if (f->b->over == NULL && tell_end(f)) {
		flow_bury(f, hard);
		return;
	}
	release(f, hard);
	f->state = F_OVER;
	f->over_next = NULL;
	*f->b->over_end = f;
	f->b->over_end = &f->over_next;
}

void flows_told(struct box *b)
{
	while (b->over != NULL && (b->rec.broken || tell_end(b->over))) {
		struct flow *f = b->over;

		b->over = f->over_next;
		if (b->over == NULL)
			b->over_end = &b->over;
		flow_bury(f, true);
	}
}

void flow_end(struct flow *f, const char *reason)
{
	if (f->recorded)
		flow_close(f, reason, true);
	else
		flow_deny(f, reason, NULL);
}

/* ---- relay ---- */

/* What limits leave of the turn, for one direction. */
static uint64_t room(const struct flow *f, bool up)
{
	return MIN(judge_room(f->b->judge, &f->v, up), f->b->turn_left);
}

static enum pump_result move(struct flow *f, struct pump *p, struct pump_side *from,
			     struct pump_side *to, bool up)
{
	uint64_t had = room(f, up), left = had;
	enum pump_result r = pump_step(p, from, to, &left);

	f->b->turn_left -= had - left;
	return r;
}

/* Count what moved. NULL, or why no more may. */
static const char *count(struct flow *f)
{
	uint64_t up = f->to_up.total - f->told_up, down = f->to_client.total - f->told_down;
	const char *reason = NULL;

	if (up + down == 0)
		return NULL;
	f->told_up += up;
	f->told_down += down;
	f->moved_ms = f->b->loop->now_ms;
	return judge_moved(f->b->judge, &f->v, up, down, &reason) ? NULL : reason;
}

void flow_moved(struct flow *f)
{
	const char *reason = count(f);

	if (reason != NULL)
		flow_end(f, reason);
}

void flow_relay(struct flow *f)
{
	enum pump_result up, down;
	const char *reason;

	if (f->b->turn_left == 0) {
		busy(f);
		return;
	}
	up = move(f, &f->to_up, &f->c, &f->u, true);
	down = move(f, &f->to_client, &f->u, &f->c,
		    false); /* also what a server said before it closed */
	reason = count(f);
	if (reason != NULL)
		flow_close(f, reason, true);
	else if (up == PUMP_BROKEN || down == PUMP_BROKEN)
		flow_close(f, "reset", true);
	else if (up == PUMP_ENDED && down == PUMP_ENDED)
		flow_close(f, "ended", false);
	else if (up == PUMP_MORE || down == PUMP_MORE)
		busy(f);
}

void flow_start_relay(struct flow *f)
{
	f->state = F_RELAY;
	f->moved_ms = f->b->loop->now_ms;
	f->u.writable = f->c.writable = true;
	f->c.readable = true; /* a client that waits for us has said something as a rule: not a turn later */
	flow_relay(f);
}

void client_ready(struct source *s, uint32_t events)
{
	struct flow *f = FLOW_OF(s, client);

	pump_events(&f->c, events);
	switch (f->state) {
	case F_PICK:
		pick_name(f);
		break;
	case F_FIRST:
	case F_FIRST_TLS:
		first_bytes(f);
		break;
	case F_DNS:
		dns_stream(f);
		break;
	case F_RELAY:
		flow_relay(f);
		break;
	case F_RESOLVE:
	case F_DIAL:
	case F_PROXY:
	case F_ANSWER:
		if ((events & EPOLLERR) != 0) /* reset: nobody waits any more */
			flow_end(f, "client_gone");
		break;
	case F_AWAY:
	case F_OVER:
	case F_DEAD:
		break;
	}
}

/* ---- time ---- */

static void check_time(struct flow *f)
{
	const struct judge_limits *l = &f->v.limits;
	uint64_t now = f->b->loop->now_ms;

	switch (f->state) {
	case F_PICK:
	case F_FIRST:
	case F_FIRST_TLS:
	case F_ANSWER:
		if (now >= f->deadline_ms)
			flow_end(f, "hello_timeout");
		break;
	case F_DNS:
		if (now >= f->deadline_ms)
			flow_bury(f, true);
		break;
	case F_RESOLVE:
		if (now >= f->deadline_ms)
			flow_deny(f, "unresolved", NULL);
		break;
	case F_DIAL:
	case F_PROXY:
		if (now >= f->deadline_ms) {
			loop_drop(&f->up);
			dial_next(f);
		}
		break;
	case F_AWAY:
	case F_RELAY:
		if (l->idle_s != 0 && now - f->moved_ms >= (uint64_t)l->idle_s * 1000)
			flow_end(f, "idle");
		else if (l->max_conn_s != 0 && now - f->begun_ms >= (uint64_t)l->max_conn_s * 1000)
			flow_end(f, "max_conn_s");
		break;
	case F_OVER:
	case F_DEAD:
		break;
	}
}

void flows_sweep(struct box *b)
{
	struct flow *next;

	for (struct flow *f = b->flows; f != NULL; f = next) {
		next = f->next;
		check_time(f);
	}
}

void flows_close(struct box *b)
{
	struct flow *next;

	for (struct flow *f = b->flows; f != NULL; f = next) {
		next = f->next;
		if (f->recorded && f->state != F_OVER)
			flow_close(f, "sandbox_ended", true);
		else if (f->state != F_OVER)
			flow_bury(f, true);
	}
}

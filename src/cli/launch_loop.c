#include "cli/launch_priv.h"
/* One poll over everything that a sandbox of `brig run` may have to say, and what is done about each. */
#include "base/num.h"
#include "cmd/say.h"
#include "spawn/door.h"
#include "sys/loop.h"
#include "wire/frame.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

/* records come with connections: reading each at once would hold those up */
enum { RECORDS_REST_MS = 10 };

static void on_session(struct launch_run *r, short revents)
{
	struct launch *l = r->l;
	bool had = l->have_result;
	struct err e = ERR_INIT;
	int err;

	if (session_io(r->session, revents, &e) < 0) {
		r->session_dead = true;
		err = l->result.err;
		/* A stream that ends with its session has no result of its own. */
		if (!had && l->have_result && l->result.how == HOW_ERROR &&
		    (err == EPIPE || err == EPROTO || err == EPROTONOSUPPORT))
			l->have_result = false;
		if (err == EPROTO || e.errnum == EPROTO || e.errnum == EPROTONOSUPPORT)
			launch_fault(r, &e);
		r->forced = r->forced || !l->have_result;
		launch_finish(r);
		return;
	}
}

static void on_outlet(struct launch_run *r, int i)
{
	struct outlet *o = &r->l->out[i];

	if (o->src_fd < 0 && o->blocked && r->exec != NULL) { /* framed */
		o->blocked = false;
		stream_resume(r->exec, i == 0 ? CHAN_OUT : CHAN_ERR);
	} else {
		outlet_pump(o);
	}
}

/* Nobody reads our stdout any more: end as a program in a shell's pipe would. */
static void check_outlets(struct launch_run *r)
{
	struct outlet *o = &r->l->out[0];
	struct err e = ERR_INIT;

	if (o->error == 0 || r->phase == PHASE_ENDING)
		return;
	if (o->error == EPIPE) {
		launch_stop_by(r, SIGPIPE);
		return;
	}
	(void)err_set(&e, ERR_INTERNAL, o->error, "writing standard output: %s",
		      strerror(o->error));
	launch_fault(r, &e);
}

static bool all_done(const struct launch_run *r)
{
	if (r->phase != PHASE_ENDING)
		return false;
	return r->l->out[0].finished && r->l->out[1].finished;
}

enum {
	P_RUNNER,
	P_SESSION,
	P_SIGNAL,
	P_OUT,
	P_ERR,
	P_IN_SRC,
	P_IN_DST,
	P_GATE,
	P_INSPECT,
	P_RECORDS,
	P_RECEIPT,
	P_DOOR,
	P_ASKS, /* of a gate that has not begun */
	P_COUNT = P_ASKS + RUNNER_ASKS
};

static int wait_time(const struct launch_run *r)
{
	uint64_t now, at = r->hold_at_ms != 0 ? r->hold_at_ms : r->gate_at_ms;

	if (at != 0 && r->phase != PHASE_ENDING) {
		now = loop_clock_ms();
		return now >= at ? 1 : (int)(at - now);
	}
	if (r->phase != PHASE_ENDING && r->progress.what != NULL)
		return MAX(progress_wait(&r->progress, loop_clock_ms()), 1);
	if (r->phase != PHASE_ENDING || r->drain_until_ms == 0)
		return -1;
	now = loop_clock_ms();
	return now >= r->drain_until_ms ? 0 : (int)(r->drain_until_ms - now);
}

/* Milliseconds until records are looked for again, 0 = now. */
static int records_rest(const struct launch_run *r)
{
	uint64_t now = r->records_at_ms != 0 ? loop_clock_ms() : 0;

	return now >= r->records_at_ms ? 0 : (int)(r->records_at_ms - now);
}

static void fill(const struct launch_run *r, int rest, struct pollfd pf[P_COUNT])
{
	bool ending = r->phase == PHASE_ENDING;
	bool talk = !r->session_dead && !ending;
	int asks[RUNNER_ASKS];

	pf[P_RUNNER] =
	    (struct pollfd){.fd = ending ? -1 : runner_event_fd(r->runner), .events = POLLIN};
	pf[P_SESSION] = (struct pollfd){.fd = talk ? runner_agent_fd(r->runner) : -1,
					.events = talk ? session_events(r->session) : (short)0};
	pf[P_SIGNAL] = (struct pollfd){.fd = r->signal_fd, .events = POLLIN};
	outlet_want(&r->l->out[0], &pf[P_OUT]);
	outlet_want(&r->l->out[1], &pf[P_ERR]);
	if (r->phase == PHASE_RECEIPT) /* of what may not run nothing is passed on */
		pf[P_OUT].fd = pf[P_ERR].fd = -1;
	inlet_want(&r->in, &pf[P_IN_SRC], &pf[P_IN_DST]);
	pf[P_GATE] = (struct pollfd){.fd = r->gate != NULL && !ending ? r->gate->ctl_fd : -1,
				     .events = POLLIN};
	/* Not before PID 1 has said that the process is there: the report comes in the midst of its start, and we would
	 * take the processor on which PID 1 wakes up when that process lets go of its memory. */
	pf[P_RECEIPT] = (struct pollfd){
	    .fd = r->phase == PHASE_RECEIPT && r->started ? launch_receipt_fd(r->l->receipt) : -1, .events = POLLIN};
	pf[P_INSPECT] = (struct pollfd){.fd = r->inspect != NULL && !ending ? r->inspect->ctl_fd : -1,
					.events = POLLIN};
	pf[P_DOOR] = (struct pollfd){.fd = r->door != NULL && !ending ? door_poll_fd(r->door) : -1, .events = POLLIN};
	if (ending || !runner_gate_asks(r->runner, asks))
		memset(asks, 0xff, sizeof(asks));
	for (int i = 0; i < RUNNER_ASKS; i++)
		pf[P_ASKS + i] = (struct pollfd){.fd = asks[i], .events = POLLIN};
	pf[P_RECORDS] = (struct pollfd){.fd = r->gate != NULL && !r->records_ended && rest == 0 ? r->gate->rec_fd : -1,
					.events = POLLIN};
}

/* It is asked something, or its time has come. Also before the door is opened, since new rules are told to a gate that is there, and before
 * output is passed on, whose reader may block us. */
static void check_gate(struct launch_run *r, const struct pollfd *pf)
{
	bool now = pf[P_DOOR].revents != 0 || ((pf[P_OUT].revents | pf[P_ERR].revents) & POLLIN) != 0;

	if (r->gate_at_ms == 0 || r->phase == PHASE_ENDING)
		return;
	for (int i = 0; i < RUNNER_ASKS; i++)
		now |= pf[P_ASKS + i].revents != 0;
	if (now || loop_clock_ms() >= r->gate_at_ms)
		launch_gate(r);
}

/* The gate never comes back: a sandbox that has lost it can reach nothing, and is ended. */
static void on_gate(struct launch_run *r)
{
	struct err e = ERR_INIT;
	char why[256] = "";
	enum gate_heard h = gate_hear(r->gate, why, sizeof(why));

	switch (h) {
	case GATE_WANTS_KILL:
		(void)err_set(&e, ERR_DENIED, EPERM, "egress: %s", why);
		launch_fault(r, &e);
		break;
	case GATE_LOST:
		(void)err_set(&e, ERR_LOST, EPIPE,
			      "the gate (brig-gate) %s%s: its connections were reset, and the sandbox was ended",
			      why[0] != '\0' ? "does not serve: " : "died", why);
		launch_fault(r, &e);
		break;
	case GATE_TOOK_RULES:
	case GATE_KEPT_RULES:
		door_heard(r->door, h, why);
		break;
	case GATE_ENDED:
	case GATE_NOTHING:
		break;
	}
}

static void on_inspect(struct launch_run *r)
{
	struct err e = ERR_INIT;

	if (!inspect_lost(r->inspect))
		return;
	(void)err_set(&e, ERR_LOST, EPIPE,
		      "the gate's reader of HTTP (brig-inspect) died: its connections were reset, and the sandbox was ended");
	launch_fault(r, &e);
}

static void on_records(struct launch_run *r)
{
	struct err e = ERR_INIT;

	r->records_ended = !egress_log_read(r->l->egress, r->gate->rec_fd);
	r->records_at_ms = loop_clock_ms() + RECORDS_REST_MS;
	if (r->l->egress->alert[0] != '\0' && r->l->alerts)
		say("blocked %s; its rules have this told at once", r->l->egress->alert);
	r->l->egress->alert[0] = '\0';
	if (r->l->egress->file_error == 0 || r->phase == PHASE_ENDING)
		return;
	(void)err_set(&e, ERR_INTERNAL, r->l->egress->file_error, "--egress-log: %s",
		      strerror(r->l->egress->file_error));
	launch_fault(r, &e); /* what cannot be recorded must not happen */
}

void launch_loop(struct launch_run *r)
{
	struct pollfd pf[P_COUNT];

	while (!all_done(r)) {
		int timeout = wait_time(r), rest = records_rest(r);

		if (timeout == 0)
			return;
		if (rest > 0 && (timeout < 0 || timeout > rest))
			timeout = rest;
		fill(r, rest, pf);
		if (poll(pf, P_COUNT, timeout) < 0)
			continue; /* EINTR: a stop signal's handler-less return */
		/* a reader of ours that blocks us must not hold up the clock */
		launch_hold(r, ((pf[P_OUT].revents | pf[P_ERR].revents) & POLLIN) != 0);
		check_gate(r, pf);
		if (pf[P_RECEIPT].revents != 0 && r->phase == PHASE_RECEIPT)
			launch_on_report(r);
		if (pf[P_SIGNAL].revents != 0)
			launch_on_signals(r);
		for (int i = 0; i < 2; i++)
			if (pf[P_OUT + i].revents != 0)
				on_outlet(r, i);
		check_outlets(r);
		if ((pf[P_IN_DST].revents & POLLERR) != 0)
			inlet_stop(&r->in);
		else if (pf[P_IN_SRC].revents != 0 || pf[P_IN_DST].revents != 0)
			inlet_pump(&r->in);
		if (pf[P_SESSION].revents != 0 && r->phase != PHASE_ENDING)
			on_session(r, pf[P_SESSION].revents);
		if (pf[P_RUNNER].revents != 0 && r->phase != PHASE_ENDING &&
		    runner_handle(r->runner) == RUNNER_ENDED) {
			r->forced = true;
			launch_finish(r);
		}
		if (pf[P_RECORDS].revents != 0)
			on_records(r);
		if (pf[P_GATE].revents != 0 && r->phase != PHASE_ENDING)
			on_gate(r);
		if (pf[P_INSPECT].revents != 0 && r->phase != PHASE_ENDING)
			on_inspect(r);
		if (pf[P_DOOR].revents != 0 && r->phase != PHASE_ENDING)
			door_ready(r->door);
		launch_next_phase(r);
	}
}

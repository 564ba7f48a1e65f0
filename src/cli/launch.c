#include "cli/launch_priv.h"
/*
 * The life around one sandbox.
 *
 *      runner_start returns before the sandbox is up, so the requests are on their way while the
 *      runner still works. A command that is short and quiet has no runner, and, if it asks for nothing outside, no gate. Phases: copy in, receipt, exec, copy out, ending. launch_loop.c waits.
 *
 * Everything from the sandbox is hostile: bytes are only moved, the result is checked by session/.
 */
#include "base/cleanup.h"
#include "base/quote.h"
#include "cmd/tty.h"
#include "spawn/door.h"
#include "sys/loop.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum {
	HOLD_MS = 10, /* a command that takes longer, or says something, gets its runner and its gate */
	LAST_RECORDS_MS = 2000,
	FORCED_DRAIN_MS = 1000, /* a reader gets that long after a forced end */
};

/* ---- the gate, which begins when it is needed ---- */

static bool asked(const struct launch_run *r)
{
	struct pollfd p[RUNNER_ASKS];
	int fds[RUNNER_ASKS];

	if (!runner_gate_asks(r->runner, fds))
		return false;
	for (int i = 0; i < RUNNER_ASKS; i++)
		p[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
	return poll(p, RUNNER_ASKS, 0) > 0;
}

void launch_gate(struct launch_run *r)
{
	struct err e = ERR_INIT;

	r->gate_at_ms = 0;
	if (runner_gate_begin(r->runner, &e) < 0)
		launch_fault(r, &e);
}

/* ---- */

void launch_finish(struct launch_run *r)
{
	if (r->phase == PHASE_ENDING)
		return;
	r->phase = PHASE_ENDING;
	progress_end(&r->progress);
	if (r->gate_at_ms != 0 && asked(r))
		launch_gate(r); /* something is to be recorded yet */
	r->gate_at_ms = 0;
	if (r->gate != NULL)
		gate_detach(r->gate); /* its last records, then the end of their pipe: while the sandbox goes */
	if (r->l->have_result && !r->forced && !r->l->exact)
		/* after a success nobody asks what was refused on the way */
		runner_finish(r->runner, r->l->result.how != HOW_EXIT || r->l->result.code != 0);
	else
		runner_kill(r->runner);
	inlet_stop(&r->in);
	for (int i = 0; i < 2; i++)
		outlet_last(&r->l->out[i]);
	if (r->forced)
		r->drain_until_ms = loop_clock_ms() + FORCED_DRAIN_MS;
}

/* End the sandbox because of a signal (or, SIGPIPE, because nobody reads). */
void launch_stop_by(struct launch_run *r, int sig)
{
	if (r->l->stopped_by == 0)
		r->l->stopped_by = sig;
	r->forced = true;
	launch_finish(r);
}

void launch_fault(struct launch_run *r, const struct err *e)
{
	if (r->fault.kind == ERR_NONE)
		r->fault = *e;
	r->forced = true;
	launch_finish(r);
}

static void start_exec(struct launch_run *r)
{
	struct err e = ERR_INIT;

	r->phase = r->l->receipt != NULL ? PHASE_RECEIPT : PHASE_EXEC;
	progress_end(&r->progress);
	if ((r->l->receipt != NULL &&
	     launch_receipt_prepare(r->l->receipt, r->runner, r->l->spec, r->l->argv, &e) < 0) ||
	    launch_open_exec(r, &e) < 0) {
		launch_fault(r, &e);
		return;
	}
	if (r->l->tty && r->l->interactive && tty_raw(&r->tty, STDIN_FILENO, &e) < 0)
		launch_fault(r, &e);
}

/* ---- copying ---- */

static void start_copy_in(struct launch_run *r)
{
	struct err e = ERR_INIT;

	if (!launch_files_any(r->l->files, false)) {
		start_exec(r);
		return;
	}
	r->phase = PHASE_COPY_IN;
	progress_begin(&r->progress, "copying in", loop_clock_ms());
	if (launch_files_begin(r->l->files, r->session, false, r->l->spec->user, &e) < 0)
		launch_fault(r, &e);
}

/* ---- the receipt ---- */

void launch_on_report(struct launch_run *r)
{
	struct err e = ERR_INIT;
	int ret = launch_receipt_hear(r->l->receipt, &e);

	if (ret == 0)
		return;
	if (ret > 0) {
		r->phase = PHASE_EXEC;
		if (r->hold_at_ms != 0) /* a short command is one that is short from here on */
			r->hold_at_ms = loop_clock_ms() + HOLD_MS;
		ret = launch_receipt_write(r->l->receipt, &e);
	}
	if (ret == 0)
		return;
	for (int i = 0; i < 2 && r->phase == PHASE_RECEIPT; i++)
		r->l->out[i].way = OUTLET_DROP; /* should it have run all the same */
	launch_fault(r, &e);
}

/* The request ended, and what it says was not waited for: what a command does that runs unmeasured. */
static void no_report(struct launch_run *r)
{
	const struct stream_result *res = &r->l->result;
	struct err e = ERR_INIT;
	char q[QUOTE_MAX];

	r->l->have_result = false;
	(void)err_set(&e, ERR_INTERNAL, res->how == HOW_ERROR ? res->err : EPROTO,
		      "--receipt: the walls could not be measured: %s",
		      res->how == HOW_ERROR ? quote_bare(res->text, q) : "the command ended first");
	launch_fault(r, &e);
}

/* A short command's receipt is left to the kernel: waiting for the disk would be most of its time. */
static void sync_receipt(struct launch_run *r)
{
	struct err e = ERR_INIT;

	if (r->l->receipt == NULL || r->fault.kind != ERR_NONE || (r->hold_at_ms != 0 && !r->l->exact))
		return;
	if (launch_receipt_sync(r->l->receipt, &e) < 0)
		r->fault = e;
}

static void start_copy_out(struct launch_run *r)
{
	struct launch *l = r->l;

	if (l->result.how == HOW_ERROR || !launch_files_any(l->files, true)) {
		launch_finish(r);
		return;
	}
	r->phase = PHASE_COPY_OUT;
	inlet_stop(&r->in);
	tty_restore(&r->tty); /* Ctrl-C is for brig again */
	progress_begin(&r->progress, "copying out", loop_clock_ms());
	if (launch_files_begin(l->files, r->session, true, l->spec->user, &l->copy_fault) < 0)
		launch_finish(r);
}

/* After each step of the session. Failing to copy in is a fault; failing to copy out is told beside
 * the command's result. */
static void check_copies(struct launch_run *r)
{
	bool out = r->phase == PHASE_COPY_OUT;
	struct err e = ERR_INIT;
	int done = launch_files_check(r->l->files, out, &e);

	if (done == 0)
		return;
	if (out) {
		if (done < 0)
			r->l->copy_fault = e;
		launch_finish(r);
	} else if (done < 0) {
		launch_fault(r, &e);
	} else {
		start_exec(r);
	}
}

/* Fork the runner when it is time, or now. */
void launch_hold(struct launch_run *r, bool now)
{
	struct err e = ERR_INIT;

	if (r->hold_at_ms == 0 || r->phase == PHASE_ENDING || (!now && loop_clock_ms() < r->hold_at_ms))
		return;
	r->hold_at_ms = 0;
	if (runner_hold(r->runner, &e) < 0)
		launch_fault(r, &e);
}

/* The result and the ends of copies may come from any call into the session, so they are looked for
 * after all of them. */
void launch_next_phase(struct launch_run *r)
{
	if (r->progress.what != NULL)
		progress_show(&r->progress, loop_clock_ms(),
			      launch_files_bytes(r->l->files, r->phase == PHASE_COPY_OUT),
			      r->l->out[0].mid_line || r->l->out[1].mid_line);
	if (r->phase == PHASE_RECEIPT && r->l->have_result)
		launch_on_report(r);
	if (r->phase == PHASE_RECEIPT && r->l->have_result)
		no_report(r);
	else if (r->phase == PHASE_EXEC && r->l->have_result)
		start_copy_out(r);
	else if (r->phase == PHASE_COPY_IN || r->phase == PHASE_COPY_OUT)
		check_copies(r);
}

static int drive(struct launch_run *r, struct err *e)
{
	int ret = session_new(runner_agent_fd(r->runner), true, &r->session);

	if (ret < 0)
		return err_set(e, ERR_INTERNAL, -ret, "the agent's session: %s", strerror(-ret));
	start_copy_in(r);
	r->hold_at_ms = loop_clock_ms() + HOLD_MS;
	r->gate_at_ms = runner_gate_asks(r->runner, (int[RUNNER_ASKS]){0}) ? r->hold_at_ms : 0;
	if (r->l->spec->timeout_ms != 0)
		launch_hold(r,
		     true); /* its clock must not depend on us: we may be stopped at any moment */
	launch_loop(r);
	sync_receipt(r);
	tty_restore(&r->tty);
	if (r->hold_at_ms == 0) /* the runner removes the rest, with us or without */
		launch_close_signals(r);
	return 0;
}

/* The sandbox is up; until nothing of it is left, or its runner sees to that. */
static int attend(struct launch_run *r, struct err *e)
{
	struct launch *l = r->l;
	int ret = 0;

	r->gate = runner_gate(r->runner);
	r->inspect = runner_inspect(r->runner);
	if (r->gate != NULL)
		ret = door_open(l->spec->id, r->gate, r->inspect, l->spec->egress, runner_take_rules_fd(r->runner), &r->door, e);
	if (ret == 0)
		ret = drive(r, e);
	if (ret == 0)
		runner_wait(r->runner, &l->end);
	door_free(r->door);
	if (r->gate != NULL && r->phase != PHASE_ENDING)
		gate_detach(r->gate); /* it never came to a beginning */
	if (r->gate != NULL && r->gate->rec_fd >= 0)
		egress_log_drain(l->egress, r->gate->rec_fd, LAST_RECORDS_MS);
	if (ret == 0 && r->fault.kind != ERR_NONE) {
		*e = r->fault;
		ret = r->fault.errnum > 0 ? -r->fault.errnum : -EINVAL;
	}
	l->lost = ret == 0 && !l->have_result && !l->end.timed_out && l->stopped_by == 0;
	l->weaker = runner_weaker(r->runner);
	if (ret == 0 && l->leaving) {
		/* the session's memory ends with the process: giving it back costs a tenth of this
		 * exit */
		runner_leave(steal_ptr(&r->runner), launch_receipt_replaced_fd(l->receipt));
		return 0;
	}
	launch_files_stop(l->files);
	session_free(r->session);
	inlet_done(&r->in);
	return ret;
}

int launch_run(struct launch *l, struct err *e)
{
	struct launch_run r = {.l = l,
			       .signal_fd = -1,
			       .tty = {.fd = -1},
			       .fault = ERR_INIT,
			       .progress = {.on = l->progress}};
	int ret;

	inlet_init(&r.in);
	ret = runner_new(l->spec, true, &r.runner, e);
	if (ret < 0)
		return ret;
	ret = launch_open_signals(&r, e);
	if (ret == 0)
		ret = runner_start(r.runner, e);
	if (ret == 0)
		ret = attend(&r, e);
	runner_free(r.runner);
	launch_close_signals(&r);
	if (r.signal_fd >= 0)
		(void)close(r.signal_fd);
	return ret;
}

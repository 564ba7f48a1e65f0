#include "cli/launch.h"
/*
 * The loop around one sandbox.
 *
 *      runner_start returns before the sandbox is up, so the requests are on their way while the
 *      runner still works. Phases: copy in, receipt, exec, copy out, ending.
 *
 * Standard streams. By default brig makes pipes and passes their far ends with the EXEC request:
 * output then costs no agent and no frame. A terminal, and `framed`, use the stream's channels.
 * When the command has ended, exactly what its pipes hold at that moment is still delivered; a
 * background process that keeps them open delays nothing.
 *
 * Signals come by signalfd, and are blocked from before the sandbox has a record until it is gone or has a
 * runner: one that ended brig in between would leave cgroups and record to the next brig. What is started
 * sets a mask of its own.
 *
 * Everything from the sandbox is hostile: bytes are only moved, the result is checked by session/.
 */
#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "cli/progress.h"
#include "cli/say.h"
#include "cli/tty.h"
#include "spawn/door.h"
#include "wire/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum launch_phase {
	PHASE_COPY_IN,	/* before the command */
	PHASE_RECEIPT,	/* the command was asked for, and measures its walls before it runs */
	PHASE_EXEC,	/* the command was asked for */
	PHASE_COPY_OUT, /* it ended; results are fetched */
	PHASE_ENDING,	/* the end was ordered; only output already taken is still delivered */
};

struct launch_run {
	struct launch *l;
	enum launch_phase phase;
	struct runner *runner;
	struct session *session;
	bool session_dead;
	struct stream *exec; /* NULL before and after */
	struct inlet in;
	struct tty tty;
	struct progress progress;
	struct gate *gate;     /* NULL = nothing may be reached */
	struct inspect *inspect; /* NULL = no rule is about HTTP */
	struct door *door;     /* of the gate */
	bool records_ended;
	uint64_t records_at_ms; /* not looked for before */
	int signal_fd;
	bool masked;	      /* old_mask is to be restored */
	sigset_t old_mask;
	uint64_t last_int_ms; /* monotonic time of the last SIGINT, 0 = none */
	uint64_t hold_at_ms;  /* when to fork the runner; 0 = it is there */
	bool forced;	      /* brig or the clock ended it: do not wait long for a slow reader */
	uint64_t drain_until_ms;
	struct err fault; /* the first failure of our own; kind NONE = none */
};

enum {
	HOLD_MS = 10,	      /* a command that takes longer, or says something, gets its runner */
	SECOND_INT_MS = 2000, /* a second Ctrl-C within this kills */
	LAST_RECORDS_MS = 2000,
	RECORDS_REST_MS = 10, /* records come with connections: reading each at once would hold those up */
	FORCED_DRAIN_MS = 1000, /* a reader gets that long after a forced end */
};

static uint64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void finish(struct launch_run *r)
{
	if (r->phase == PHASE_ENDING)
		return;
	r->phase = PHASE_ENDING;
	progress_end(&r->progress);
	if (r->l->have_result && !r->forced && !r->l->exact)
		/* after a success nobody asks what was refused on the way */
		runner_finish(r->runner, r->l->result.how != HOW_EXIT || r->l->result.code != 0);
	else
		runner_kill(r->runner);
	if (r->gate != NULL)
		gate_detach(r->gate); /* its last records, then the end of their pipe: while the sandbox goes */
	inlet_stop(&r->in);
	for (int i = 0; i < 2; i++)
		outlet_last(&r->l->out[i]);
	if (r->forced)
		r->drain_until_ms = now_ms() + FORCED_DRAIN_MS;
}

/* End the sandbox because of a signal (or, SIGPIPE, because nobody reads). */
static void stop_by(struct launch_run *r, int sig)
{
	if (r->l->stopped_by == 0)
		r->l->stopped_by = sig;
	r->forced = true;
	finish(r);
}

static void fault(struct launch_run *r, const struct err *e)
{
	if (r->fault.kind == ERR_NONE)
		r->fault = *e;
	r->forced = true;
	finish(r);
}

/* ---- the exec stream ---- */

static ssize_t on_data(void *arg, struct stream *s, uint8_t chan, const void *p, size_t n)
{
	struct launch_run *r = (struct launch_run *)arg;

	(void)s;
	return (ssize_t)outlet_take(&r->l->out[chan == CHAN_ERR], p, n);
}

static void on_writable(void *arg, struct stream *s)
{
	struct launch_run *r = (struct launch_run *)arg;

	(void)s;
	inlet_pump(&r->in);
}

static void on_broken(void *arg, struct stream *s, int err)
{
	struct launch_run *r = (struct launch_run *)arg;

	(void)s;
	(void)err;
	inlet_stop(&r->in);
}

static void on_result(void *arg, struct stream *s, const struct stream_result *res)
{
	struct launch_run *r = (struct launch_run *)arg;

	(void)s;
	r->exec = NULL;
	r->l->have_result = true;
	r->l->result = *res;
}

static const struct stream_ops exec_ops = {
    .data = on_data,
    .writable = on_writable,
    .broken = on_broken,
    .result = on_result,
};

static void put_exec(struct msg_writer *w, const struct launch *l)
{
	const struct spec *s = l->spec;
	uint64_t flags = REQ_SOLE;

	if (l->tty)
		flags |= REQ_TTY;
	if (l->interactive)
		flags |= REQ_STDIN;
	if (!l->tty && !l->framed)
		flags |= REQ_FD_STDIO;
	if (l->receipt != NULL)
		flags |= launch_receipt_flags(s);
	msg_u64(w, F_KIND, REQ_EXEC);
	msg_u64(w, F_FLAGS, flags);
	for (uint32_t i = 0; l->argv[i] != NULL; i++)
		msg_str(w, F_ARG, l->argv[i]);
	for (uint32_t i = 0; i < s->env.n; i++)
		msg_str(w, F_ENV, s->env.v[i]);
	for (uint32_t i = 0; l->secrets != NULL && i < l->secrets->n; i++)
		msg_str(w, F_ENV, l->secrets->v[i]);
	msg_str(w, F_CWD, s->workdir != NULL ? s->workdir : "/workspace");
	if (s->user != NULL)
		msg_str(w, F_USER, s->user);
	if (l->tty) {
		uint16_t rows, cols;

		tty_size(STDIN_FILENO, &rows, &cols);
		msg_u64(w, F_ROWS, rows);
		msg_u64(w, F_COLS, cols);
	}
}

/* A pipe that any user of the sandbox may open again by /dev/stdout and the like; nobody else can
 * reach it. */
static int make_pipe(int p[2], struct err *e)
{
	if (pipe2(p, O_CLOEXEC) < 0)
		return err_set(e, ERR_INTERNAL, errno, "a pipe: %s", strerror(errno));
	(void)fchmod(p[0], 0666);
	return 0;
}

/* Open the pipes: ours go to inlet and outlets, far[] are the sandbox's. Returns their number. */
static int make_pipes(struct launch_run *r, int far[3], struct err *e)
{
	int n = 0, p[2];

	if (r->l->interactive) {
		int err = make_pipe(p, e);

		if (err < 0)
			return err;
		far[n++] = p[0];
		inlet_to_pipe(&r->in, STDIN_FILENO, p[1]);
	}
	for (int i = 0; i < 2; i++) {
		int err = make_pipe(p, e);

		if (err < 0) {
			while (n > 0)
				(void)close(far[--n]);
			return err;
		}
		r->l->out[i].src_fd = p[0];
		far[n++] = p[1];
	}
	return n;
}

static int open_exec(struct launch_run *r, struct err *e)
{
	struct launch *l = r->l;
	struct msg_writer w = {NULL, 0};
	struct buf req;
	int far[5], n = 0, ret;

	buf_init(&req, FRAME_OPEN_MAX);
	w.b = &req;
	put_exec(&w, l);
	if (w.err != 0)
		ret = err_set(e, ERR_LIMITED, E2BIG,
			      "Argument list too long: one argument or variable may have 131071 "
			      "bytes, all together 4 MiB");
	else
		ret = l->tty || l->framed ? 0 : make_pipes(r, far, e);
	if (ret >= 0) {
		n = ret;
		ret = l->receipt != NULL ? launch_receipt_open(l->receipt, far + n, e) : 0;
	}
	if (ret == 0) {
		n += l->receipt != NULL ? 2 : 0;
		ret = session_open(r->session, &req, far, (uint32_t)n, &exec_ops, r, &r->exec, e);
	}
	while (n > 0)
		(void)close(far[--n]);
	if (req.data != NULL)
		explicit_bzero(req.data, req.cap); /* secrets */
	buf_done(&req);
	if (ret == 0 && (l->tty || l->framed) && l->interactive)
		inlet_to_stream(&r->in, STDIN_FILENO, r->exec);
	return ret;
}

static void start_exec(struct launch_run *r)
{
	struct err e = ERR_INIT;

	r->phase = r->l->receipt != NULL ? PHASE_RECEIPT : PHASE_EXEC;
	progress_end(&r->progress);
	if (open_exec(r, &e) < 0 ||
	    (r->l->receipt != NULL && launch_receipt_prepare(r->l->receipt, r->runner, r->l->spec,
							     r->l->argv, &e) < 0)) {
		fault(r, &e);
		return;
	}
	if (r->l->tty && r->l->interactive && tty_raw(&r->tty, STDIN_FILENO, &e) < 0)
		fault(r, &e);
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
	progress_begin(&r->progress, "copying in", now_ms());
	if (launch_files_begin(r->l->files, r->session, false, r->l->spec->user, &e) < 0)
		fault(r, &e);
}

/* ---- the receipt ---- */

static void on_report(struct launch_run *r)
{
	struct err e = ERR_INIT;
	int ret = launch_receipt_hear(r->l->receipt, &e);

	if (ret == 0)
		return;
	if (ret > 0) {
		r->phase = PHASE_EXEC;
		if (r->hold_at_ms != 0) /* a short command is one that is short from here on */
			r->hold_at_ms = now_ms() + HOLD_MS;
		ret = launch_receipt_write(r->l->receipt, &e);
	}
	if (ret < 0)
		fault(r, &e);
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
	fault(r, &e);
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
		finish(r);
		return;
	}
	r->phase = PHASE_COPY_OUT;
	inlet_stop(&r->in);
	tty_restore(&r->tty); /* Ctrl-C is for brig again */
	progress_begin(&r->progress, "copying out", now_ms());
	if (launch_files_begin(l->files, r->session, true, l->spec->user, &l->copy_fault) < 0)
		finish(r);
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
		finish(r);
	} else if (done < 0) {
		fault(r, &e);
	} else {
		start_exec(r);
	}
}

/* ---- what happens while waiting ---- */

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
			fault(r, &e);
		r->forced = r->forced || !l->have_result;
		finish(r);
		return;
	}
}

static void forward(struct launch_run *r, int sig)
{
	uint64_t now;

	if (r->phase != PHASE_EXEC || r->exec == NULL) {
		stop_by(r, sig);
		r->drain_until_ms = 1; /* whoever gives signals now wants to leave */
		return;
	}
	if (sig == SIGINT) {
		now = now_ms();
		if (r->last_int_ms != 0 && now - r->last_int_ms <= SECOND_INT_MS) {
			stop_by(r, sig);
			return;
		}
		r->last_int_ms = now;
	}
	stream_signal(r->exec, sig);
}

static void on_signals(struct launch_run *r)
{
	struct signalfd_siginfo si;

	while (read(r->signal_fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo == SIGWINCH) {
			uint16_t rows, cols;

			if (!r->l->tty || r->exec == NULL)
				continue;
			tty_size(STDIN_FILENO, &rows, &cols);
			stream_resize(r->exec, rows, cols);
		} else {
			forward(r, (int)si.ssi_signo);
		}
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
		stop_by(r, SIGPIPE);
		return;
	}
	(void)err_set(&e, ERR_INTERNAL, o->error, "writing standard output: %s",
		      strerror(o->error));
	fault(r, &e);
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
	P_COUNT
};

static int wait_time(const struct launch_run *r)
{
	uint64_t now;

	if (r->hold_at_ms != 0 && r->phase != PHASE_ENDING) {
		now = now_ms();
		return now >= r->hold_at_ms ? 1 : (int)(r->hold_at_ms - now);
	}
	if (r->phase != PHASE_ENDING && r->progress.what != NULL)
		return MAX(progress_wait(&r->progress, now_ms()), 1);
	if (r->phase != PHASE_ENDING || r->drain_until_ms == 0)
		return -1;
	now = now_ms();
	return now >= r->drain_until_ms ? 0 : (int)(r->drain_until_ms - now);
}

/* Milliseconds until records are looked for again, 0 = now. */
static int records_rest(const struct launch_run *r)
{
	uint64_t now = r->records_at_ms != 0 ? now_ms() : 0;

	return now >= r->records_at_ms ? 0 : (int)(r->records_at_ms - now);
}

/* Fork the runner when it is time, or now. */
static void hold(struct launch_run *r, bool now)
{
	struct err e = ERR_INIT;

	if (r->hold_at_ms == 0 || r->phase == PHASE_ENDING || (!now && now_ms() < r->hold_at_ms))
		return;
	r->hold_at_ms = 0;
	if (runner_hold(r->runner, &e) < 0)
		fault(r, &e);
}

static void fill(const struct launch_run *r, int rest, struct pollfd pf[P_COUNT])
{
	bool ending = r->phase == PHASE_ENDING;
	bool talk = !r->session_dead && !ending;

	pf[P_RUNNER] =
	    (struct pollfd){.fd = ending ? -1 : runner_event_fd(r->runner), .events = POLLIN};
	pf[P_SESSION] = (struct pollfd){.fd = talk ? runner_agent_fd(r->runner) : -1,
					.events = talk ? session_events(r->session) : (short)0};
	pf[P_SIGNAL] = (struct pollfd){.fd = r->signal_fd, .events = POLLIN};
	outlet_want(&r->l->out[0], &pf[P_OUT]);
	outlet_want(&r->l->out[1], &pf[P_ERR]);
	inlet_want(&r->in, &pf[P_IN_SRC], &pf[P_IN_DST]);
	pf[P_GATE] = (struct pollfd){.fd = r->gate != NULL && !ending ? r->gate->ctl_fd : -1,
				     .events = POLLIN};
	pf[P_RECEIPT] = (struct pollfd){
	    .fd = r->phase == PHASE_RECEIPT ? launch_receipt_fd(r->l->receipt) : -1, .events = POLLIN};
	pf[P_INSPECT] = (struct pollfd){.fd = r->inspect != NULL && !ending ? r->inspect->ctl_fd : -1,
					.events = POLLIN};
	pf[P_DOOR] = (struct pollfd){.fd = r->door != NULL && !ending ? door_poll_fd(r->door) : -1, .events = POLLIN};
	pf[P_RECORDS] = (struct pollfd){.fd = r->gate != NULL && !r->records_ended && rest == 0 ? r->gate->rec_fd : -1,
					.events = POLLIN};
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
		fault(r, &e);
		break;
	case GATE_LOST:
		(void)err_set(&e, ERR_LOST, EPIPE,
			      "the gate (brig-gate) died: its connections were reset, and the sandbox was ended");
		fault(r, &e);
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
	fault(r, &e);
}

static void on_records(struct launch_run *r)
{
	struct err e = ERR_INIT;

	r->records_ended = !egress_log_read(r->l->egress, r->gate->rec_fd);
	r->records_at_ms = now_ms() + RECORDS_REST_MS;
	if (r->l->egress->alert[0] != '\0' && r->l->alerts)
		say("blocked %s; its rules have this told at once", r->l->egress->alert);
	r->l->egress->alert[0] = '\0';
	if (r->l->egress->file_error == 0 || r->phase == PHASE_ENDING)
		return;
	(void)err_set(&e, ERR_INTERNAL, r->l->egress->file_error, "--egress-log: %s",
		      strerror(r->l->egress->file_error));
	fault(r, &e); /* what cannot be recorded must not happen */
}

/* The result and the ends of copies may come from any call into the session, so they are looked for
 * after all of them. */
static void next_phase(struct launch_run *r)
{
	if (r->progress.what != NULL)
		progress_show(&r->progress, now_ms(),
			      launch_files_bytes(r->l->files, r->phase == PHASE_COPY_OUT),
			      r->l->out[0].mid_line || r->l->out[1].mid_line);
	if (r->phase == PHASE_EXEC && r->l->have_result)
		start_copy_out(r);
	else if (r->phase == PHASE_COPY_IN || r->phase == PHASE_COPY_OUT)
		check_copies(r);
	else if (r->phase == PHASE_RECEIPT && r->l->have_result)
		no_report(r);
}

static void loop(struct launch_run *r)
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
		hold(r, ((pf[P_OUT].revents | pf[P_ERR].revents) & POLLIN) != 0);
		if (pf[P_RECEIPT].revents != 0 && r->phase == PHASE_RECEIPT)
			on_report(r);
		if (pf[P_SIGNAL].revents != 0)
			on_signals(r);
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
			finish(r);
		}
		if (pf[P_RECORDS].revents != 0)
			on_records(r);
		if (pf[P_GATE].revents != 0 && r->phase != PHASE_ENDING)
			on_gate(r);
		if (pf[P_INSPECT].revents != 0 && r->phase != PHASE_ENDING)
			on_inspect(r);
		if (pf[P_DOOR].revents != 0 && r->phase != PHASE_ENDING)
			door_ready(r->door);
		next_phase(r);
	}
}

static int open_signals(struct launch_run *r, struct err *e)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	struct sigaction sa;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGWINCH);
	/* a signalfd gets ignored signals too, but nohup(1) and a shell's `&` mean what they say */
	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (sigaction(ends[i], NULL, &sa) < 0 || sa.sa_handler != SIG_IGN)
			sigaddset(&set, ends[i]);
	r->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (r->signal_fd < 0)
		return err_set(e, ERR_INTERNAL, errno, "signalfd: %s", strerror(errno));
	sigaddset(&set, SIGPIPE); /* a closed reader is seen by EPIPE */
	(void)sigprocmask(SIG_BLOCK, &set, &r->old_mask);
	r->masked = true;
	return 0;
}

/* A SIGPIPE that a closed reader left pending must not strike when the mask is lifted. */
static void close_signals(struct launch_run *r)
{
	static const struct timespec now = {0, 0};
	sigset_t set;

	if (!r->masked)
		return;
	r->masked = false;
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	(void)sigtimedwait(&set, NULL, &now);
	(void)sigprocmask(SIG_SETMASK, &r->old_mask, NULL);
}

static int drive(struct launch_run *r, struct err *e)
{
	int ret = session_new(runner_agent_fd(r->runner), true, &r->session);

	if (ret < 0)
		return err_set(e, ERR_INTERNAL, -ret, "the agent's session: %s", strerror(-ret));
	start_copy_in(r);
	r->hold_at_ms = now_ms() + HOLD_MS;
	if (r->l->spec->timeout_ms != 0)
		hold(r,
		     true); /* its clock must not depend on us: we may be stopped at any moment */
	loop(r);
	sync_receipt(r);
	tty_restore(&r->tty);
	if (r->hold_at_ms == 0) /* the runner removes the rest, with us or without */
		close_signals(r);
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
	if (r->gate != NULL)
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
		runner_leave(steal_ptr(&r->runner));
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
	ret = runner_new(l->spec, &r.runner, e);
	if (ret < 0)
		return ret;
	ret = open_signals(&r, e);
	if (ret == 0)
		ret = runner_start(r.runner, e);
	if (ret == 0)
		ret = attend(&r, e);
	runner_free(r.runner);
	close_signals(&r);
	if (r.signal_fd >= 0)
		(void)close(r.signal_fd);
	return ret;
}

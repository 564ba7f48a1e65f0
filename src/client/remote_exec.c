#include "client/remote_exec.h"

#include "base/base64.h"
#include "base/num.h"
#include "base/quote.h"
#include "client/events.h"
#include "client/remote_calls.h"
#include "cmd/command.h"
#include "cmd/outlet.h"
#include "cmd/say.h"
#include "cmd/tty.h"
#include "sys/loop.h"
#include "wire/envelope.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/*
 * One loop around one call: Start, whose answer streams until the process ends. Everything the
 * other way is a call of its own (remote_calls.c), one at a time, in order: input, its end,
 * signals, the size of the terminal.
 *
 * Output is taken from the network only when what came before is written, so a reader that does not
 * read stops the program inside, and memory stays bounded. The process is not the connection's:
 * when we are told to end we end it, and when the connection breaks that is said, since it then
 * runs on.
 */

enum { SECOND_INT_MS = 2000, PENDING_MAX = 1024 * 1024, KEEPALIVE_S = 20 };

struct run {
	struct client *c;
	const struct remote_exec *x;
	struct events ev;
	struct http_call start;
	struct remote_calls calls;
	struct outlet out[2];
	struct buf pending[2]; /* of an outlet that was full */
	bool held;	       /* Start's answer waits for it */
	struct tty tty;
	int signal_fd;
	sigset_t old_mask;
	uint64_t last_int_ms;
	int stopped_by; /* a signal of ours ended it */
	bool left;	/* it never began, and is not waited for any more */
	int broken;	/* -errno of the stream */
};

/* ---- output ---- */

/* Write what waits; false: it still does. */
static bool drain(struct run *r, int i)
{
	struct buf *b = &r->pending[i];

	while (b->len > 0) {
		size_t n = outlet_take(&r->out[i], buf_head(b), b->len);

		if (n == 0)
			return false;
		buf_consume(b, n);
	}
	return true;
}

static int on_data(void *arg, enum event_channel chan, const uint8_t *p, size_t n)
{
	struct run *r = arg;
	int i = chan == EVENT_STDERR, bad;

	if ((chan == EVENT_PTY) != r->x->tty)
		return -EPROTO;
	bad = buf_put(&r->pending[i], p, n);
	if (bad == 0)
		(void)drain(r, i);
	return bad;
}

static void on_start(void *arg, uint32_t pid)
{
	struct run *r = arg;

	remote_calls_begin(&r->calls, pid);
}

static size_t on_answer(void *arg, const char *p, size_t n)
{
	struct run *r = arg;

	if (r->pending[0].len > 0 || r->pending[1].len > 0) {
		r->held = true;
		return CURL_WRITEFUNC_PAUSE;
	}
	r->broken = events_feed(&r->ev, p, n);
	return r->broken == 0 ? n : 0;
}

/* Somebody reads again, or nobody ever will. */
static void go_on(struct run *r)
{
	bool all = drain(r, 0);

	if (drain(r, 1) && all && r->held) {
		r->held = false;
		http_go(&r->start);
	}
}

/* ---- signals ---- */

static void stop(struct run *r, int sig)
{
	if (r->stopped_by == 0)
		r->stopped_by = sig;
	r->left = !r->calls.begun;
	remote_calls_signal(&r->calls, SIGKILL);
}

static void on_signal(struct run *r, int sig)
{
	uint64_t now = loop_clock_ms();
	uint16_t rows, cols;

	if (sig == SIGWINCH) {
		tty_size(STDIN_FILENO, &rows, &cols);
		if (r->x->tty)
			remote_calls_resize(&r->calls, rows, cols);
	} else if (sig == SIGINT && r->last_int_ms != 0 && now - r->last_int_ms <= SECOND_INT_MS) {
		stop(r, sig);
	} else {
		r->last_int_ms = sig == SIGINT ? now : 0;
		remote_calls_signal(&r->calls, sig);
	}
}

static int open_signals(struct run *r, struct err *e)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	struct sigaction sa;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGWINCH);
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) /* nohup(1) means what it says */
		if (sigaction(ends[i], NULL, &sa) < 0 || sa.sa_handler != SIG_IGN)
			sigaddset(&set, ends[i]);
	(void)sigprocmask(SIG_BLOCK, &set, &r->old_mask);
	r->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return r->signal_fd < 0 ? err_set(e, ERR_INTERNAL, errno, "signalfd: %s", strerror(errno))
				: 0;
}

static void read_signals(struct run *r)
{
	struct signalfd_siginfo si;

	while (read(r->signal_fd, &si, sizeof(si)) == (ssize_t)sizeof(si))
		on_signal(r, (int)si.ssi_signo);
}

/* Nobody reads our stdout any more: end as a program in a shell's pipe would. */
static void check_outlets(struct run *r)
{
	if (r->out[0].error != 0 && r->stopped_by == 0)
		stop(r, SIGPIPE);
}

/* ---- the request ---- */

static json_t *start_body(const struct remote_exec *x)
{
	json_t *args = json_array(), *process, *o;
	uint16_t rows, cols;
	int bad = args == NULL;

	for (size_t i = 1; x->argv[i] != NULL; i++)
		bad |= json_array_append_new(args, json_string(x->argv[i]));
	process = json_pack("{s:s,s:o,s:O}", "cmd", x->argv[0], "args", args, "envs", x->env);
	if (process != NULL && x->cwd != NULL)
		bad |= json_object_set_new(process, "cwd", json_string(x->cwd));
	o = json_pack("{s:o,s:b}", "process", process, "stdin", x->interactive);
	if (o != NULL && x->tty) {
		tty_size(STDIN_FILENO, &rows, &cols);
		bad |= json_object_set_new(
		    o, "pty",
		    json_pack("{s:{s:i,s:i}}", "size", "rows", (int)rows, "cols", (int)cols));
	}
	if (bad != 0) {
		json_decref(o);
		return NULL;
	}
	return o;
}

static int open_start(struct run *r, const struct box_ref *b, struct buf *body, struct err *e)
{
	json_t *o = start_body(r->x);
	char *text = o != NULL ? json_dumps(o, JSON_COMPACT) : NULL, ms[24];
	int bad;

	json_decref(o);
	if (text == NULL)
		return err_set(
		    e, ERR_INVALID, EINVAL,
		    "the command, its arguments and its environment must be text in UTF-8");
	bad = envelope_put(body, 0, text, strlen(text));
	free(text);
	if (bad < 0)
		return err_set(e, ERR_LIMITED, E2BIG,
			       "Argument list too long: a request may have 4 MiB");
	r->start = (struct http_call){.method = "POST",
				      .path = "/process.Process/Start",
				      .type = "application/connect+json",
				      .body = buf_head(body),
				      .body_n = body->len,
				      .take = on_answer,
				      .arg = r,
				      .patience = HTTP_STREAM};
	bad = api_to_box(&r->start, b, PORT_ENVD, r->x->user, e);
	(void)snprintf(ms, sizeof(ms), "%d", KEEPALIVE_S);
	if (bad == 0 && http_field(&r->start, "Keepalive-Ping-Interval", ms) < 0)
		bad = err_no_memory(e);
	(void)snprintf(ms, sizeof(ms), "%llu", (unsigned long long)r->x->timeout_ms);
	if (bad == 0 && r->x->timeout_ms > 0 && http_field(&r->start, "Connect-Timeout-Ms", ms) < 0)
		bad = err_no_memory(e);
	return bad < 0 ? bad : http_start(&r->c->http, &r->start, e);
}

/* ---- the loop ---- */

enum { P_SIGNAL, P_OUT, P_ERR, P_IN, P_COUNT };

static bool all_done(const struct run *r)
{
	return r->start.done && (r->pending[0].len == 0 || r->out[0].error != 0) &&
	       (r->pending[1].len == 0 || r->out[1].error != 0);
}

static int loop(struct run *r, struct err *e)
{
	while (!all_done(r) && !r->left) {
		struct pollfd pf[P_COUNT];
		int bad;

		pf[P_SIGNAL] = (struct pollfd){.fd = r->signal_fd, .events = POLLIN};
		outlet_want(&r->out[0], &pf[P_OUT]);
		outlet_want(&r->out[1], &pf[P_ERR]);
		pf[P_IN] = (struct pollfd){.fd = remote_calls_reads(&r->calls) ? STDIN_FILENO : -1,
					   .events = POLLIN};
		bad = http_turn(&r->c->http, pf, P_COUNT, -1, e);
		if (bad < 0)
			return bad;
		if (pf[P_SIGNAL].fd >= 0 && pf[P_SIGNAL].revents != 0)
			read_signals(r);
		for (int i = 0; i < 2; i++)
			if (pf[P_OUT + i].fd >= 0 && pf[P_OUT + i].revents != 0)
				r->out[i].blocked = false;
		go_on(r);
		check_outlets(r);
		if (pf[P_IN].fd >= 0 && pf[P_IN].revents != 0)
			remote_calls_read(&r->calls);
		remote_calls_turn(&r->calls);
	}
	return 0;
}

/* ---- the end ---- */

/* It never ran, or its time is over. */
static int failed_code(const struct run *r, const struct box_ref *b, int *ret, struct err *e)
{
	char q[QUOTE_MAX], code[QUOTE_MAX];

	(void)quote_bare(r->ev.text, q);
	if (strcmp(r->ev.code, "deadline_exceeded") == 0) {
		*ret = EXIT_TIMEOUT;
		return 0;
	}
	if (strcmp(r->ev.code, "invalid_argument") ==
	    0) { /* of a program that cannot be run it is told after its start */
		say("%s", q);
		*ret = strstr(r->ev.text, "No such file") != NULL ? EXIT_NOTFOUND : EXIT_NOEXEC;
		return 0;
	}
	return err_set(e, ERR_LOST, EIO, "sandbox %s: %s (%s)", b->id, q,
		       quote_bare(r->ev.code, code));
}

static int result(struct run *r, const struct box_ref *b, int *ret, struct err *e)
{
	char q[QUOTE_MAX];
	int bad = 0;

	if (r->stopped_by != 0)
		*ret = EXIT_SIGNAL + r->stopped_by;
	else if (r->ev.ended)
		*ret = r->ev.exited ? r->ev.exit_code : EXIT_SIGNAL + r->ev.signal;
	else if (r->broken != 0)
		bad = err_set(e, ERR_LOST, EPROTO, "sandbox %s: its answer is not what brigd says",
			      b->id);
	else if (r->start.code == CURLE_OK && r->start.status == 200 && r->ev.code[0] != '\0')
		bad = failed_code(r, b, ret, e);
	else if (r->start.status == 200 || (r->start.code != CURLE_OK && r->ev.started))
		bad = err_set(e, ERR_LOST, EPIPE, "sandbox %s: %s while the command ran", b->id,
			      r->start.code == CURLE_OK
				  ? "the stream ended"
				  : "the connection broke, or the sandbox ended,");
	else
		bad = api_status(r->c, &r->start, b->id, e);
	if (bad == 0 && r->out[0].error != 0 && r->out[0].error != EPIPE)
		bad = err_set(e, ERR_INTERNAL, r->out[0].error, "writing standard output: %s",
			      quote_bare(strerror(r->out[0].error), q));
	return bad;
}

int remote_exec(struct client *c, const struct box_ref *b, const struct remote_exec *x, int *ret,
		struct err *e)
{
	struct buf body = {.max = 4 * 1024 * 1024};
	struct run r = {.c = c, .x = x, .tty = {.fd = -1}, .signal_fd = -1};
	int bad;

	r.ev = (struct events){.start = on_start, .data = on_data, .arg = &r};
	events_init(&r.ev);
	for (int i = 0; i < 2; i++) {
		outlet_init(&r.out[i], i == 0 ? STDOUT_FILENO : STDERR_FILENO, 0);
		buf_init(&r.pending[i], PENDING_MAX);
	}
	remote_calls_init(&r.calls, c, b, x->interactive, x->tty);
	bad = open_signals(&r, e);
	if (bad == 0)
		bad = open_start(&r, b, &body, e);
	if (bad == 0 && x->tty && x->interactive)
		bad = tty_raw(&r.tty, STDIN_FILENO, e);
	if (bad == 0)
		bad = loop(&r, e);
	tty_restore(&r.tty);
	if (bad == 0)
		bad = result(&r, b, ret, e);
	remote_calls_done(&r.calls);
	http_done(&c->http, &r.start);
	for (int i = 0; i < 2; i++) {
		outlet_done(&r.out[i]);
		buf_done(&r.pending[i]);
	}
	events_done(&r.ev);
	buf_done(&body);
	if (r.signal_fd >= 0)
		(void)close(r.signal_fd);
	return bad;
}

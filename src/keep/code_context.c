#include "keep/code.h"

#include "base/num.h"
#include "keep/code_event.h"
#include "keep/priv.h"
#include "keep/query.h"
#include "keep/text.h"
#include "wire/frame.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * A context's process: brig-interp, put into the sandbox when the first is started, and its lines.
 * All of it is the sandbox's to change, so a line that is no event ends the process, and a process
 * that ends is told to the client and started anew for the next call.
 */

static const char program[] = "/run/brig-interp";

/* ---- brig-interp goes into the sandbox ---- */

static void fail_all(struct code_context *c, const char *text)
{
	while (c->jobs != NULL)
		code_job_fail(c->jobs, text);
}

static void on_write_room(void *arg, struct stream *s)
{
	struct code *code = arg;
	uint8_t piece[SMALL];
	ssize_t n, took;

	do { /* a locked-in keeper has no pread(2) */
		n = lseek(code->k->a->interp_fd, code->written, SEEK_SET) < 0
			? -1
			: read(code->k->a->interp_fd, piece, sizeof(piece));
		if (n <= 0)
			break;
		took = stream_write(s, piece, (size_t)n);
		if (took <= 0)
			return; /* room comes, or the result */
		code->written += took;
	} while (n > 0);
	if (n == 0)
		stream_eof(s);
	else
		stream_reset(s); /* the old contents stay */
}

static void on_written(void *arg, struct stream *s, const struct stream_result *r)
{
	struct code *code = arg;
	char why[400];

	(void)s;
	code->writing = NULL;
	code->there = r->how == HOW_DONE;
	if (keep_lost(code->k))
		return;
	(void)snprintf(why, sizeof(why), "the code interpreter cannot be put into the sandbox: %s",
		       r->text);
	for (struct code_context *c = code->contexts; c != NULL; c = c->next) {
		if (!code->there)
			fail_all(c, why);
		else if (c == code->contexts || c->jobs != NULL)
			code_pump(c); /* the others start when they are used */
	}
	if (!code_comes(code->k))
		code_came(code->k);
}

static const struct stream_ops write_ops = {.writable = on_write_room, .result = on_written};

static int put_program(struct code *code)
{
	struct buf req;
	struct msg_writer m = query_begin(&req, REQ_WRITE, 0, NULL);
	int r;

	code->written = 0;
	msg_str(&m, F_PATH, program);
	msg_u64(&m, F_MODE, 0755);
	r = m.err < 0 ? m.err
		      : session_open(code->k->session, &req, NULL, 0, &write_ops, code,
				     &code->writing, NULL);
	buf_done(&req);
	if (r == 0)
		on_write_room(code, code->writing);
	return r;
}

/* ---- lines ---- */

static void queue_command(struct code_context *c, json_t *o)
{
	if (text_put_value(&c->commands, o) < 0 || text_put(&c->commands, "\n") < 0)
		code_stop(c);
}

static void send_commands(struct code_context *c)
{
	ssize_t n;

	while (c->x.s != NULL && c->commands.len > 0) {
		n = stream_write(c->x.s, buf_head(&c->commands), c->commands.len);
		if (n <= 0)
			return;
		buf_consume(&c->commands, (size_t)n);
	}
}

static void job_ended(struct code_context *c)
{
	struct code_job *j = c->jobs;

	c->running = false;
	timer_clear(&c->code->k->timers, &c->again);
	if (j->t == NULL)
		code_job_free(j);
	else
		code_job_end(j);
}

static void one_line(struct code_context *c, const void *p, size_t n)
{
	json_t *o;
	int type = code_event(p, n, &o);

	if (type < 0 ||
	    (type != CODE_READY && type != CODE_FAILED && type != CODE_DIED && !c->ready)) {
		json_decref(o);
		(void)snprintf(c->died, sizeof(c->died),
			       "the %s context said what it must not and was ended", c->lang->word);
		code_stop(c);
		return;
	}
	if (type == CODE_READY) {
		c->ready = true;
		if (c == c->code->contexts)
			code_came(c->code->k);
	} else if (type == CODE_FAILED || type == CODE_DIED) {
		(void)snprintf(c->died, sizeof(c->died), "%s",
			       json_string_value(json_object_get(o, "text")));
	} else if (c->running) {
		code_job_say(c->jobs, json_incref(o));
		if (type == CODE_END)
			job_ended(c);
	}
	json_decref(o);
}

/* Whether the client has taken what came before. */
static bool client_full(const struct code_context *c)
{
	return c->running && c->jobs->t != NULL && c->jobs->out.len > 0;
}

static bool may_grow(struct code_context *c, size_t n)
{
	struct code *code = c->code;

	if (c->line.len + n <= SMALL)
		return true;
	if (code->big == NULL)
		code->big = c;
	return code->big == c;
}

static void not_big(struct code_context *c)
{
	struct code *code = c->code;

	if (code->big != c || c->line.len > 0 || client_full(c))
		return;
	code->big = NULL;
	buf_done(&c->line);
	for (struct code_context *o = code->contexts; o != NULL; o = o->next)
		if (o != c)
			code_resume(o);
}

static ssize_t on_data(void *arg, struct stream *s, uint8_t chan, const void *p, size_t n)
{
	struct code_context *c = arg;
	const uint8_t *at = p, *end = at + n;

	(void)s;
	if (chan != CHAN_OUT)
		return (ssize_t)n; /* brig-interp has nothing to say there */
	while (at < end && !c->ending && !client_full(c)) {
		const uint8_t *nl = memchr(at, '\n', (size_t)(end - at));
		size_t m = (size_t)((nl != NULL ? nl : end) - at);

		if (!may_grow(c, m))
			break;
		if (buf_put(&c->line, at, m) < 0) {
			(void)snprintf(c->died, sizeof(c->died),
				       "the %s context wrote a line of more than %d bytes",
				       c->lang->word, CODE_LINE_MAX);
			code_stop(c);
			break;
		}
		at += m + (nl != NULL);
		if (nl != NULL) {
			one_line(c, buf_head(&c->line), c->line.len);
			buf_consume(&c->line, c->line.len);
		}
	}
	not_big(c);
	code_pump(c);
	return c->ending ? (ssize_t)n : at - (const uint8_t *)p;
}

static void on_room(void *arg, struct stream *s)
{
	(void)s;
	send_commands(arg);
}

void code_resume(struct code_context *c)
{
	if (c->x.s != NULL)
		stream_resume(c->x.s, CHAN_OUT);
}

/* ---- life ---- */

static void reset(struct code_context *c)
{
	c->ready = c->set_up = c->ending = false;
	c->died[0] = '\0';
	buf_done(&c->commands);
	buf_done(&c->line);
	not_big(c);
}

static void context_free(struct code_context *c)
{
	struct code_context **at = &c->code->contexts;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	timer_clear(&c->code->k->timers, &c->again);
	buf_done(&c->line);
	buf_done(&c->commands);
	if (c->code->big == c)
		c->code->big = NULL;
	free(c->cwd);
	free(c);
}

static void on_result(void *arg, struct stream *s, const struct stream_result *r)
{
	struct code_context *c = arg;
	bool started = c->ready, told = c->ending && c->died[0] == '\0';
	char why[512];

	(void)s;
	exec_ended(&c->x);
	if (keep_lost(c->code->k))
		return;
	if (told)
		(void)snprintf(why, sizeof(why), "the context was restarted or removed");
	else if (c->died[0] == '\0')
		(void)snprintf(why, sizeof(why), "the %s context cannot be run: %s", c->lang->word,
			       r->how == HOW_ERROR ? r->text : "it ended");
	else
		(void)snprintf(why, sizeof(why), "%s", c->died);
	reset(c);
	if (c == c->code->contexts)
		code_came(c->code->k);
	if (c->running && c->jobs->t == NULL) {
		job_ended(c);
	} else if (c->running) {
		c->running = false;
		timer_clear(&c->code->k->timers, &c->again);
		code_job_fail(c->jobs, why);
	}
	if (c->gone || (!started && !told))
		fail_all(c, why);
	if (c->gone)
		context_free(c);
	else if (told || c->jobs != NULL)
		code_pump(c);
}

static const struct stream_ops ops = {.data = on_data, .writable = on_room, .result = on_result};

static int start(struct code_context *c, struct err *e)
{
	struct keep *k = c->code->k;
	json_t *args = json_pack("[s]", c->lang->word), *env = exec_env(k, NULL);
	struct exec_want w = {.cmd = program,
			      .args = args,
			      .env = env,
			      .cwd = c->cwd != NULL ? c->cwd : "/",
			      .in = true};
	int r = args == NULL || env == NULL ? -ENOMEM : exec_open(k, &w, &ops, c, &c->x, e);

	json_decref(args);
	json_decref(env);
	return r;
}

static void run_next(struct code_context *c)
{
	json_t *home = json_string(c->cwd != NULL ? c->cwd : "/home/user");

	if (!c->set_up)
		queue_command(c, json_pack("{s:s, s:o, s:O}", "op", "setup", "cwd", home, "env",
					   c->code->k->env));
	else
		json_decref(home);
	c->set_up = c->running = true;
	queue_command(c, json_incref(c->jobs->command));
}

void code_pump(struct code_context *c)
{
	struct err e = ERR_INIT;
	struct code *code = c->code;
	int r = 0;

	if (c->ending || c->gone || keep_lost(code->k))
		return;
	if (!code->there) {
		if (code->writing == NULL && put_program(code) < 0)
			fail_all(c, "the code interpreter cannot be put into the sandbox");
		return;
	}
	if (c->x.s == NULL)
		r = start(c, &e);
	if (r < 0)
		fail_all(c, e.kind != ERR_NONE ? e.msg : "the context cannot be started");
	else if (c->ready && !c->running && c->jobs != NULL)
		run_next(c);
	send_commands(c);
}

void code_stop(struct code_context *c)
{
	if (c->x.s == NULL || c->ending)
		return;
	c->ending = true;
	exec_kill(&c->x);
	code_resume(c);
}

void code_forget(struct code_context *c)
{
	if (c->x.s != NULL) {
		code_stop(c);
	} else {
		fail_all(c, "the context was removed");
		context_free(c);
	}
}

static void on_again(struct timer *tm)
{
	struct code_context *c =
	    (struct code_context *)((char *)tm - offsetof(struct code_context, again));

	if (c->running && c->jobs->t == NULL)
		code_interrupt(c);
}

void code_interrupt(struct code_context *c)
{
	struct keep *k = c->code->k;

	if (c->ending || c->x.s == NULL)
		return;
	if (c->commands.len == 0) /* else one is on its way, or the program does not read */
		queue_command(c, json_pack("{s:s}", "op", "interrupt"));
	send_commands(c);
	c->again.fire = on_again;
	timer_set(&k->timers, &c->again, k->loop.now_ms + AGAIN_MS);
}

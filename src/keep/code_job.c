#include "keep/code.h"

#include "base/num.h"
#include "keep/code_event.h"
#include "keep/priv.h"
#include "parse/stamp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * The answer of one POST /execute: a line for each event, sent when it comes. Its head goes out
 * with the first line, so that a context that cannot be started still is a status. A client that
 * does not read stops its context: `out` has at most one event more than the talk has room for.
 */

static void flush(struct code_job *j)
{
	while (j->t != NULL && j->out.len > 0) {
		size_t room = talk_room(j->t);
		size_t n = MIN(MIN(room, j->out.len), (size_t)CALL_PIECE_MAX);

		if (n == 0)
			return;
		talk_send(j->t, buf_head(&j->out), n);
		buf_consume(&j->out, n);
	}
}

static void on_writable(struct talk *t)
{
	struct code_job *j = t->arg;

	flush(j);
	if (j->out.len == 0)
		code_resume(j->c);
}

static void on_closed(struct talk *t)
{
	struct code_job *j = t->arg;
	struct code_context *c = j->c;

	t->arg = NULL;
	t->ops = NULL;
	j->t = NULL;
	timer_clear(&t->k->timers, &j->keepalive);
	if (c->running && c->jobs == j) {
		buf_done(&j->out);
		code_interrupt(c);
		code_resume(c);
	} else {
		code_job_free(j);
	}
}

static const struct talk_ops ops = {.writable = on_writable, .closed = on_closed};

static void on_keepalive(struct timer *tm)
{
	struct code_job *j = (struct code_job *)((char *)tm - offsetof(struct code_job, keepalive));
	uint64_t now = j->t->k->loop.now_ms;

	if (now - j->said_ms >= KEEPALIVE_MS && j->out.len == 0)
		code_job_say(j, json_pack("{s:s}", "type", "keepalive"));
	timer_set(&j->t->k->timers, tm, MAX(j->said_ms + KEEPALIVE_MS, now + 100));
}

int code_job_new(struct code_context *c, struct talk *t, json_t *command)
{
	struct code_job *j = calloc(1, sizeof(*j)), **at = &c->jobs;
	uint32_t n = 0;

	for (; *at != NULL; at = &(*at)->next)
		n++;
	if (j == NULL || n >= JOBS_MAX) {
		free(j);
		json_decref(command);
		return n >= JOBS_MAX ? -EAGAIN : -ENOMEM;
	}
	j->c = c;
	j->t = t;
	j->command = command;
	j->said_ms = t->k->loop.now_ms;
	buf_init(&j->out, 2 * (size_t)CODE_LINE_MAX);
	*at = j;
	t->ops = &ops;
	t->arg = j;
	j->keepalive.fire = on_keepalive;
	timer_set(&t->k->timers, &j->keepalive, j->said_ms + KEEPALIVE_MS);
	return 0;
}

/* For clients that show when something was printed. */
static json_t *timestamp(void)
{
	struct timespec now = {.tv_sec = 0};
	char text[STAMP_SIZE];

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return json_string(stamp_text(now.tv_sec, 0, 0, text));
}

void code_job_say(struct code_job *j, json_t *event)
{
	static const struct call_field f[] = {{"content-type", "application/x-ndjson"}};
	const char *type = json_string_value(json_object_get(event, "type"));

	if (type != NULL && strncmp(type, "std", 3) == 0)
		(void)json_object_set_new(event, "timestamp", timestamp());
	if (j->t != NULL) {
		if (!j->t->head_sent)
			talk_reply(j->t, 200, f, 1);
		if (event == NULL || code_event_put(&j->out, event) < 0)
			talk_cut(j->t);
		flush(j);
		j->said_ms = j->t->k->loop.now_ms;
	}
	json_decref(event);
}

void code_job_free(struct code_job *j)
{
	struct code_job **at = &j->c->jobs;

	while (*at != NULL && *at != j)
		at = &(*at)->next;
	if (*at == j)
		*at = j->next;
	timer_clear(&j->c->code->k->timers, &j->keepalive);
	json_decref(j->command);
	buf_done(&j->out);
	free(j);
}

/* What is left of the answer goes out without the job: it may be of any size. */
static void hand_over(struct code_job *j)
{
	struct talk *t = j->t;

	if (t != NULL) {
		talk_detach(t);
		t->arg = NULL;
		if (j->out.len > 0) {
			buf_done(&t->rest);
			t->rest = j->out;
			buf_init(&j->out, 0);
		}
		talk_end(t);
	}
	code_job_free(j);
}

void code_job_end(struct code_job *j) { hand_over(j); }

void code_job_fail(struct code_job *j, const char *text)
{
	struct talk *t = j->t;
	struct buf b;

	if (t != NULL && !t->head_sent) {
		buf_init(&b, 64 * 1024);
		talk_detach(t);
		t->arg = NULL;
		if (buf_put(&b, text, strlen(text)) < 0)
			talk_cut(t);
		else
			talk_answer(t, 500, "text/plain; charset=utf-8", &b);
		buf_done(&b);
		code_job_free(j);
		return;
	}
	code_job_say(j, json_pack("{s:s, s:s, s:s, s:s}", "type", "error", "name", "ContextDied",
				  "value", text, "traceback", ""));
	code_job_say(j, json_pack("{s:s}", "type", "unexpected_end_of_execution"));
	hand_over(j);
}

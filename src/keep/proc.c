#include "keep/proc.h"

#include "base/num.h"
#include "keep/event.h"
#include "keep/priv.h"
#include "keep/rpc.h"
#include "wire/frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Output is passed on in whole events, and only when every viewer has room: until then the session
 * keeps it, at most one window, and grants the agent nothing, so the program stops. A viewer that
 * gets room again, or goes, resumes both channels.
 *
 * The pid is the agent's to say, and it may lie: it only names the process to clients.
 */

/* ---- viewers ---- */

static void viewer_free(struct viewer *v)
{
	struct keep *k = v->t->k;
	struct viewer **at = &v->p->viewers;

	while (*at != v)
		at = &(*at)->next;
	*at = v->next;
	timer_clear(&k->timers, &v->keepalive);
	timer_clear(&k->timers, &v->deadline);
	v->t->arg = NULL;
	v->t->ops = NULL;
	free(v);
}

static void resume(struct proc *p)
{
	for (uint8_t chan = CHAN_OUT; chan <= (uint8_t)CHAN_ERR; chan++)
		if (p->x.s != NULL)
			stream_resume(p->x.s, chan);
}

static void on_writable(struct talk *t)
{
	struct viewer *v = t->arg;

	resume(v->p);
}

static void on_closed(struct talk *t)
{
	struct viewer *v = t->arg;
	struct proc *p = v->p;

	viewer_free(v);
	resume(p);
}

static const struct talk_ops viewer_ops = {.writable = on_writable, .closed = on_closed};

static void said(struct viewer *v) { v->said_ms = v->t->k->loop.now_ms; }

static void on_keepalive(struct timer *tm)
{
	struct viewer *v = (struct viewer *)((char *)tm - offsetof(struct viewer, keepalive));
	uint64_t now = v->t->k->loop.now_ms;

	if (now - v->said_ms >= v->interval_ms && talk_room(v->t) > 0) {
		stream_json(v->t, event_keepalive());
		said(v);
	}
	timer_set(&v->t->k->timers, tm, MAX(v->said_ms + v->interval_ms, now + 1000));
}

static void on_viewer_deadline(struct timer *tm)
{
	struct viewer *v = (struct viewer *)((char *)tm - offsetof(struct viewer, deadline));
	struct talk *t = v->t;
	struct proc *p = v->p;

	viewer_free(v);
	fail(t, FAIL_DEADLINE_EXCEEDED, "the operation timed out");
	resume(p);
}

static void tell_start(struct viewer *v)
{
	stream_json(v->t, event_start(v->p->pid));
	said(v);
	timer_set(&v->t->k->timers, &v->keepalive, v->said_ms + v->interval_ms);
}

static void tell_end(struct viewer *v)
{
	struct talk *t = v->t;
	const struct proc *p = v->p;

	stream_json(t, event_end(p->exit_code, p->exited, p->status));
	stream_close(t);
	viewer_free(v);
}

int proc_view(struct proc *p, struct talk *t)
{
	struct viewer *v = calloc(1, sizeof(*v));
	uint64_t ms = stream_timeout_ms(t);

	if (v == NULL)
		return -ENOMEM;
	v->p = p;
	v->t = t;
	v->interval_ms = stream_keepalive_ms(t);
	v->keepalive.fire = on_keepalive;
	v->deadline.fire = on_viewer_deadline;
	v->next = p->viewers;
	p->viewers = v;
	t->ops = &viewer_ops;
	t->arg = v;
	stream_begin(t);
	if (!p->started)
		talk_hold(t); /* the start event comes at once, or a failure */
	if (ms > 0)
		timer_set(&t->k->timers, &v->deadline, t->k->loop.now_ms + ms);
	if (p->started)
		tell_start(v);
	if (p->ended)
		tell_end(v);
	return 0;
}

/* ---- the table ---- */

static void proc_free(struct proc *p)
{
	struct keep *k = p->k;
	struct proc **at = &k->procs;

	while (*at != NULL && *at != p)
		at = &(*at)->next;
	if (*at == p) {
		*at = p->next;
		k->procs_n--;
	}
	timer_clear(&k->timers, &p->deadline);
	timer_clear(&k->timers, &p->forget);
	json_decref(p->config);
	free(p->tag);
	free(p);
}

static void on_forget(struct timer *tm)
{
	proc_free((struct proc *)((char *)tm - offsetof(struct proc, forget)));
}

/* Of those that have ended; the list begins with the newest. */
static void forget_oldest(struct keep *k)
{
	struct proc *last = NULL;

	for (struct proc *p = k->procs; p != NULL; p = p->next)
		if (p->ended && p->forget.at_ms != 0)
			last = p;
	if (last != NULL)
		proc_free(last);
}

static bool is_named(const struct proc *p, uint32_t pid, const char *tag)
{
	if (!p->started)
		return false;
	return tag != NULL ? p->tag != NULL && strcmp(p->tag, tag) == 0 : p->pid == pid;
}

struct proc *proc_find(struct talk *t, json_t *req, bool ended)
{
	const json_t *sel = rpc_get(req, "process", NULL);
	const char *tag = rpc_text(rpc_get(sel, "tag", NULL));
	struct proc *late = NULL;
	uint32_t pid = 0;

	if (tag == NULL && !rpc_u32(rpc_get(sel, "pid", NULL), &pid)) {
		fail(t, FAIL_INVALID_ARGUMENT, "process: a pid or a tag is wanted");
		return NULL;
	}
	for (struct proc *p = t->k->procs; p != NULL; p = p->next) {
		if (!is_named(p, pid, tag))
			continue;
		if (!p->ended)
			return p;
		if (late == NULL)
			late = p;
	}
	if (late != NULL && ended)
		return late;
	if (tag != NULL)
		fail(t, FAIL_NOT_FOUND, "process with tag '%s' not found", tag);
	else
		fail(t, FAIL_NOT_FOUND, "process with pid %u not found", pid);
	return NULL;
}

struct proc *proc_by_nr(const struct keep *k, uint64_t nr)
{
	struct proc *p = k->procs;

	while (p != NULL && p->nr != nr)
		p = p->next;
	return p;
}

/* ---- from the agent ---- */

static void on_started(void *arg, struct stream *s, uint32_t pid)
{
	struct proc *p = arg;

	(void)s;
	p->pid = pid;
	p->started = true;
	for (struct viewer *v = p->viewers; v != NULL; v = v->next)
		tell_start(v);
}

static bool all_have_room(const struct proc *p)
{
	bool ret = true;

	for (const struct viewer *v = p->viewers; v != NULL; v = v->next)
		ret = talk_room(v->t) > 0 && ret;
	return ret;
}

static ssize_t on_data(void *arg, struct stream *s, uint8_t chan, const void *p, size_t n)
{
	struct proc *proc = arg;
	const char *name = proc->tty ? "pty" : chan == CHAN_ERR ? "stderr" : "stdout";
	size_t most = proc->tty ? EVENT_TTY_MAX : EVENT_DATA_MAX, done = 0;

	(void)s;
	while (done < n && proc->viewers != NULL && proc->started) {
		size_t part = MIN(n - done, most), len = 0;
		char *text;

		if (!all_have_room(proc))
			return (ssize_t)done;
		text = event_data(name, (const uint8_t *)p + done, part, &len);
		for (struct viewer *v = proc->viewers; v != NULL; v = v->next) {
			if (text == NULL)
				talk_cut(v->t);
			else
				stream_raw(v->t, text, len);
			said(v);
		}
		free(text);
		done += part;
	}
	return (ssize_t)n;
}

/* It could not run: ENOENT and the like. */
static void tell_error(struct proc *p, const struct stream_result *r)
{
	while (p->viewers != NULL) {
		struct talk *t = p->viewers->t;

		viewer_free(p->viewers);
		fail(t,
		     r->err == EAGAIN || r->err == EMFILE ? FAIL_RESOURCE_EXHAUSTED
							  : FAIL_INVALID_ARGUMENT,
		     "error starting process: %s", r->text);
	}
}

static void on_result(void *arg, struct stream *s, const struct stream_result *r)
{
	struct proc *p = arg;

	(void)s;
	exec_ended(&p->x);
	if (keep_lost(p->k))
		return;
	timer_clear(&p->k->timers, &p->deadline);
	proc_feeds_end(p);
	p->ended = true;
	if (r->how == HOW_ERROR || r->how == HOW_DONE || !p->started) {
		tell_error(p, r);
		p->started = false; /* found by nobody; freed when nobody has it in hand */
		timer_set(&p->k->timers, &p->forget, 1);
		return;
	}
	p->exited = r->how == HOW_EXIT;
	p->exit_code = p->exited ? (int)r->code : -1;
	event_status(r, p->status, sizeof(p->status));
	while (p->viewers != NULL)
		tell_end(p->viewers);
	timer_set(&p->k->timers, &p->forget, p->k->loop.now_ms + FORGET_MS);
}

/* ---- stdin (proc_feed.c) ---- */

static void on_writable_in(void *arg, struct stream *s)
{
	(void)s;
	proc_pump(arg);
}

static void on_broken(void *arg, struct stream *s, int err)
{
	(void)s;
	(void)err;
	proc_feeds_end(arg);
}

static const struct stream_ops exec_ops = {.data = on_data,
					   .writable = on_writable_in,
					   .broken = on_broken,
					   .started = on_started,
					   .result = on_result};

/* ---- start ---- */

static void on_deadline(struct timer *tm)
{
	struct proc *p = (struct proc *)((char *)tm - offsetof(struct proc, deadline));

	exec_kill(&p->x);
}

int proc_start(struct talk *t, const struct exec_want *w, json_t *config, char *tag, struct err *e)
{
	struct keep *k = t->k;
	uint64_t ms = stream_timeout_ms(t);
	struct proc *p;
	int r;

	if (k->procs_n >= PROCS_MAX)
		forget_oldest(k);
	if (k->procs_n >= PROCS_MAX)
		return err_set(e, ERR_LIMITED, EMFILE, "more than %d processes", PROCS_MAX);
	p = calloc(1, sizeof(*p));
	if (p == NULL)
		return err_no_memory(e);
	p->k = k;
	p->nr = ++k->procs_last;
	p->tty = w->tty;
	p->in = w->in || w->tty;
	p->deadline.fire = on_deadline;
	p->forget.fire = on_forget;
	r = exec_open(k, w, &exec_ops, p, &p->x, e);
	if (r < 0) {
		free(p);
		return r;
	}
	p->next = k->procs;
	k->procs = p;
	k->procs_n++;
	p->config = config;
	p->tag = tag;
	if (ms > 0)
		timer_set(&k->timers, &p->deadline, k->loop.now_ms + ms);
	if (proc_view(p, t) < 0)
		talk_cut(t);
	return 0;
}

void procs_done(struct keep *k)
{
	while (k->procs != NULL)
		proc_free(k->procs);
}

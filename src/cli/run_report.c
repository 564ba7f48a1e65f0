#include "cli/run_report.h"
/*
 * The six ways a run can end are kept apart: an exit code, a signal, the clock, the memory limit, a
 * lost sandbox, and a fault of brig's own. Text and output that came from the sandbox are hostile:
 * shown escaped, or as JSON strings (base64 when they are not UTF-8).
 */
#include "base/base64.h"
#include "base/num.h"
#include "base/quote.h"
#include "base/units.h"
#include "cmd/command.h"
#include "cmd/say.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what happened ---- */

static bool begins(const char *s, const char *with) { return strncmp(s, with, strlen(with)) == 0; }

/* The agent's text tells what execve(2) refused from what was wrong with the request itself. */
static void not_run(struct run_outcome *o)
{
	const struct stream_result *r = &o->launch->result;
	const char *name = o->launch->argv[0];
	enum err_kind kind = ERR_INTERNAL;
	bool plain = r->text[0] == '\0' || begins(r->text, "running ");
	char q[QUOTE_MAX];

	if (!plain && !begins(r->text, "the interpreter")) {
		o->code = EXIT_FAULT;
		(void)err_set(&o->fault, ERR_INVALID, r->err, "%s", quote_bare(r->text, q));
		return;
	}
	if (r->err == ENOENT) {
		o->code = EXIT_NOTFOUND;
		if (plain)
			(void)err_set(&o->fault, ERR_NOT_FOUND, ENOENT,
				      "%s: not found in the sandbox", quote(name, q));
		else
			(void)err_set(&o->fault, ERR_NOT_FOUND, ENOENT, "%s",
				      quote_bare(r->text, q));
		return;
	}
	o->code = EXIT_NOEXEC;
	if (r->err == EACCES || r->err == EISDIR)
		kind = ERR_DENIED;
	else if (r->err == ENOEXEC)
		kind = ERR_UNSUPPORTED;
	else if (r->err == E2BIG)
		kind = ERR_LIMITED;
	else
		o->code = EXIT_FAULT;
	(void)err_set(&o->fault, kind, r->err, "%s: cannot be run: %s", quote(name, q),
		      strerror(r->err));
}

void outcome_decide(struct run_outcome *o)
{
	const struct launch *l = o->launch;

	o->exit = -1;
	o->signal = 0;
	o->code = EXIT_FAULT;
	if (o->fault.kind != ERR_NONE) {
		if (o->fault.errnum == E2BIG)
			o->code = EXIT_NOEXEC;
		return;
	}
	o->oom = l->end.oom_kills > 0;
	/* The clock kills everything at once; the agent may still have seen the command die of it. */
	if (l->end.timed_out && !(l->have_result && l->result.how == HOW_EXIT)) {
		o->timed_out = true;
		o->code = EXIT_TIMEOUT;
	} else if (l->stopped_by != 0) {
		o->signal = l->stopped_by;
		o->code = EXIT_SIGNAL + l->stopped_by;
	} else if (!l->have_result && o->oom) {
		o->lost = true;
		o->signal = SIGKILL;
		o->code = EXIT_SIGNAL + SIGKILL;
	} else if (!l->have_result) {
		o->lost = true;
		(void)err_set(&o->fault, ERR_LOST, EPIPE,
			      "the sandbox ended before its command did");
	} else if (l->result.how == HOW_EXIT) {
		o->exit = (int)(l->result.code & 255);
		o->code = o->exit;
	} else if (l->result.how == HOW_SIGNAL) {
		o->signal = (int)(l->result.code & 127);
		o->code = EXIT_SIGNAL + o->signal;
	} else {
		not_run(o);
	}
	if (l->copy_fault.kind != ERR_NONE && o->fault.kind == ERR_NONE) {
		o->fault = l->copy_fault;
		if (o->code == 0)
			o->code = EXIT_FAULT;
	}
}

/* ---- which walls do not hold ---- */

static const struct {
	enum runner_weaker bit;
	const char *what;
} walls[] = {
    {WEAKER_MEMORY, "memory limit"}, {WEAKER_CPU, "cpu limit"}, {WEAKER_PIDS, "process limit"},
    {WEAKER_KILL, "kill"},           {WEAKER_IDMAP, "idmap"},   {WEAKER_LANDLOCK, "landlock"},
};

const char *outcome_wall_name(uint32_t bit)
{
	for (size_t i = 0; i < ARRAY_LEN(walls); i++)
		if ((uint32_t)walls[i].bit == bit)
			return walls[i].what;
	return "unknown";
}

static void say_weaker(const struct launch *l)
{
	for (size_t i = 0; i < ARRAY_LEN(walls); i++)
		if ((l->weaker & walls[i].bit) != 0)
			say("note: %s", runner_weaker_text(walls[i].bit));
}

/* Which of the limits asked for do not hold, in one line for a person at a terminal. */
static void note_limits(const struct launch *l)
{
	const struct spec *s = l->spec;
	bool memory = s->memory != 0 && (l->weaker & WEAKER_MEMORY) != 0;
	bool cpus = s->cpu_milli != 0 && (l->weaker & WEAKER_CPU) != 0;
	bool pids = s->pids != 0 && (l->weaker & WEAKER_PIDS) != 0;

	if (memory || cpus || pids)
		say("note: not limited as asked:%s%s%s; 'brig check' says why and how to change it",
		    memory ? " memory" : "", cpus ? memory ? ", cpus" : " cpus" : "",
		    pids ? memory || cpus ? ", pids" : " pids" : "");
}

static json_t *weaker_json(const struct launch *l)
{
	json_t *list = json_array();

	for (size_t i = 0; l != NULL && i < ARRAY_LEN(walls); i++)
		if ((l->weaker & walls[i].bit) != 0)
			(void)json_array_append_new(
			    list, json_pack("{s:s, s:s}", "what", walls[i].what, "text",
					    runner_weaker_text(walls[i].bit)));
	return list;
}

enum { BLOCKED_SHOWN = 5 };

/* What the command was not let reach: the first few, and how many there were. */
static void say_blocked(const struct egress_log *l)
{
	if (l == NULL || l->denied == 0)
		return;
	say("%llu connection attempt%s or lookup%s blocked:", (unsigned long long)l->denied,
	    l->denied == 1 ? "" : "s", l->denied == 1 ? "" : "s");
	for (uint32_t i = 0; i < MIN(l->n, (uint32_t)BLOCKED_SHOWN); i++)
		say("  %s %s: %s, %llu time%s", l->seen[i].transport, l->seen[i].where, l->seen[i].reason,
		    (unsigned long long)l->seen[i].times, l->seen[i].times == 1 ? "" : "s");
	if (l->n > BLOCKED_SHOWN)
		say("  and %u more; --json or --egress-log has them", l->n - BLOCKED_SHOWN);
}

static json_t *egress_json(const struct egress_log *l)
{
	json_t *list = json_array();

	if (l == NULL) {
		json_decref(list);
		return json_null();
	}
	for (uint32_t i = 0; i < l->n; i++)
		(void)json_array_append_new(
		    list, json_pack("{s:s, s:s, s:s, s:s, s:I}", "event", l->seen[i].event, "transport",
				    l->seen[i].transport, "where", l->seen[i].where, "reason",
				    l->seen[i].reason, "times", (json_int_t)l->seen[i].times));
	return json_pack("{s:I, s:I, s:o, s:I, s:I, s:s}", "allowed", (json_int_t)l->allowed, "denied",
			 (json_int_t)l->denied, "blocked", list, "records", (json_int_t)l->records, "lost",
			 (json_int_t)l->lost, "head", l->head);
}

void outcome_say(const struct run_outcome *o)
{
	bool quiet = o->args->on[RUN_QUIET];
	const struct spec *s = &o->args->spec;
	char t[UNITS_TEXT];

	if (o->fault.kind != ERR_NONE)
		(void)say_err(&o->fault);
	if (quiet || o->launch == NULL)
		return;
	if (o->args->on[RUN_VERBOSE])
		say_weaker(o->launch);
	else if (isatty(STDERR_FILENO) == 1)
		note_limits(o->launch);
	if (o->timed_out)
		say("time limit (%s) reached: the sandbox was ended",
		    units_duration_text(s->timeout_ms, t));
	if (o->oom)
		say("memory limit (%s) reached: %u process%s killed", units_size_text(s->memory, t),
		    o->launch->end.oom_kills, o->launch->end.oom_kills == 1 ? "" : "es");
	if (o->launch->end.pids_denied > 0)
		say("process limit (%u) reached: %u fork%s refused", s->pids,
		    o->launch->end.pids_denied, o->launch->end.pids_denied == 1 ? "" : "s");
	if ((o->args->outs.n > 0 || o->args->one[RUN_OUT_PATCH] != NULL) &&
	    (o->timed_out || o->lost || o->launch->stopped_by != 0))
		say("nothing was copied out: the sandbox ended before its command did");
	say_blocked(o->launch->egress);
	if (o->launch->end.lost)
		say("the sandbox's runner died; what it held was removed");
}

/* ---- JSON ---- */

static json_t *number_or_null(uint64_t v) { return v != 0 ? json_integer((json_int_t)v) : json_null(); }

static json_t *fault_json(const struct err *e)
{
	if (e->kind == ERR_NONE)
		return json_null();
	return json_pack("{s:s, s:o}", "kind", err_kind_name(e->kind), "message",
			 json_stringn_nocheck(e->msg, strlen(e->msg)));
}

/* Only what really holds: a limit the host cannot enforce is null. */
static json_t *limits_json(const struct spec *s, uint32_t weaker)
{
	bool cpus = s->cpu_milli != 0 && (weaker & WEAKER_CPU) == 0;

	return json_pack("{s:o, s:I, s:I, s:o, s:o, s:o}", "memory",
			 number_or_null((weaker & WEAKER_MEMORY) != 0 ? 0 : s->memory), "disk",
			 (json_int_t)s->disk, "inodes", (json_int_t)s->inodes, "cpus",
			 cpus ? json_real(s->cpu_milli / 1000.0) : json_null(), "pids",
			 number_or_null((weaker & WEAKER_PIDS) != 0 ? 0 : s->pids), "timeout_ms",
			 number_or_null(s->timeout_ms));
}

static void put_output(json_t *top, const char *name, const struct outlet *o)
{
	char key[32];
	json_t *text = json_stringn(o->kept.len > 0 ? (const char *)buf_head(&o->kept) : "",
				    o->kept.len);

	if (text != NULL) {
		(void)json_object_set_new(top, name, text);
		return;
	}
	(void)snprintf(key, sizeof(key), "%s_base64", name);
	{
		char *b64 = base64_encode(buf_head(&o->kept), o->kept.len);

		(void)json_object_set_new(top, key, b64 != NULL ? json_string(b64) : json_null());
		free(b64);
	}
}

static void put_counts(json_t *top, const struct run_outcome *o)
{
	const struct launch *l = o->launch;
	uint64_t cpu_us = 0, wall_us = 0, peak = 0;

	if (l != NULL) {
		cpu_us = l->end.cpu_us;
		wall_us = l->end.wall_us;
		peak = l->end.memory_peak;
		if (cpu_us == 0 && l->have_result)
			cpu_us = l->result.utime_us + l->result.stime_us;
		if (peak == 0 && l->have_result)
			peak = l->result.maxrss_kib * 1024;
	}
	(void)json_object_set_new(top, "cpu_ms", json_real((double)cpu_us / 1000.0));
	(void)json_object_set_new(top, "wall_ms", json_real((double)wall_us / 1000.0));
	(void)json_object_set_new(top, "memory_peak", number_or_null(peak));
	(void)json_object_set_new(top, "stdout_bytes",
				  json_integer(l != NULL ? (json_int_t)l->out[0].bytes : 0));
	(void)json_object_set_new(top, "stderr_bytes",
				  json_integer(l != NULL ? (json_int_t)l->out[1].bytes : 0));
}

/* A name that is not UTF-8 is shown escaped. */
static json_t *name_json(const char *s)
{
	char q[QUOTE_MAX];
	json_t *text = s != NULL ? json_string(s) : json_null();

	return text != NULL ? text : json_string(quote_bare(s, q));
}

static json_t *outcome_object(const struct run_outcome *o)
{
	const struct spec *s = &o->args->spec;
	const struct launch *l = o->launch;

	return json_pack("{s:s, s:s?, s:o, s:o, s:s?, s:o, s:o, s:b, s:b, s:i, s:b, s:o, s:o, s:o}", "id", s->id, "task", s->task,
			 "tier", name_json(s->tier), "image", name_json(s->image), "image_digest",
			 s->image_digest, "exit",
			 o->exit >= 0 ? json_integer(o->exit) : json_null(), "signal",
			 o->signal > 0 ? json_integer(o->signal) : json_null(), "timed_out",
			 o->timed_out, "oom", o->oom, "oom_kills",
			 l != NULL ? (int)l->end.oom_kills : 0, "lost",
			 o->lost || (l != NULL && l->end.lost), "fault", fault_json(&o->fault),
			 "limits", limits_json(s, l != NULL ? l->weaker : 0), "weaker", weaker_json(l));
}

int outcome_json(const struct run_outcome *o, bool with_output, int fd)
{
	json_t *top = outcome_object(o);
	char *text;
	int r;

	if (top == NULL)
		return -ENOMEM;
	put_counts(top, o);
	(void)json_object_set_new(top, "egress", egress_json(o->launch != NULL ? o->launch->egress : NULL));
	if (with_output && o->launch != NULL) {
		put_output(top, "stdout", &o->launch->out[0]);
		put_output(top, "stderr", &o->launch->out[1]);
		(void)json_object_set_new(top, "stdout_truncated",
					  json_boolean(outlet_truncated(&o->launch->out[0])));
		(void)json_object_set_new(top, "stderr_truncated",
					  json_boolean(outlet_truncated(&o->launch->out[1])));
	}
	text = json_dumps(top, JSON_COMPACT | JSON_REAL_PRECISION(12));
	json_decref(top);
	if (text == NULL)
		return -ENOMEM;
	r = say_raw(fd, text, strlen(text));
	if (r == 0)
		r = say_raw(fd, "\n", 1);
	free(text);
	return r;
}

#include "keep/priv.h"
#include "keep/proc.h"
#include "keep/query.h"
#include "keep/rpc.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* process.Process: Start, Connect, List, SendSignal, Update. Requests are a client's. */

/* ---- Start ---- */

/* A Start whose working folder is looked at first, so that its absence is told before any event. */
struct start {
	struct query q;
	struct talk *t;
	json_t *req;
	char cwd[4096];
};

static bool pty_size(const json_t *pty, uint16_t *rows, uint16_t *cols)
{
	const json_t *size = rpc_get(pty, "size", NULL);
	uint32_t r = 0, c = 0;

	if (!rpc_u32(rpc_get(size, "rows", NULL), &r) ||
	    !rpc_u32(rpc_get(size, "cols", NULL), &c) || r > UINT16_MAX || c > UINT16_MAX)
		return false;
	*rows = (uint16_t)r;
	*cols = (uint16_t)c;
	return true;
}

/* NULL and what is wrong. */
static json_t *config_of(const json_t *req, const char **why)
{
	json_t *p = rpc_get(req, "process", NULL);
	json_t *args = rpc_get(p, "args", NULL), *envs = rpc_get(p, "envs", NULL);
	json_t *cwd = rpc_get(p, "cwd", NULL), *ret;

	*why = "process: cmd, args, envs and cwd are text";
	if (rpc_text(rpc_get(p, "cmd", NULL)) == NULL || (cwd != NULL && rpc_text(cwd) == NULL) ||
	    (args != NULL && (!json_is_array(args) || !rpc_strings(args))) ||
	    (envs != NULL && (!json_is_object(envs) || !rpc_strings(envs))))
		return NULL;
	ret = json_pack("{s:O}", "cmd", rpc_get(p, "cmd", NULL));
	if (ret != NULL && args != NULL)
		(void)json_object_set(ret, "args", args);
	if (ret != NULL && envs != NULL)
		(void)json_object_set(ret, "envs", envs);
	if (ret != NULL && cwd != NULL)
		(void)json_object_set(ret, "cwd", cwd);
	return ret;
}

static int start_now(struct talk *t, const json_t *req, const char *cwd)
{
	json_t *pty = rpc_get(req, "pty", NULL), *in = rpc_get(req, "stdin", NULL);
	const char *why = NULL, *tag = rpc_text(rpc_get(req, "tag", NULL));
	json_t *config = config_of(req, &why);
	struct exec_want w = {
	    .cwd = cwd, .user = t->user->spec, .tty = pty != NULL, .in = !json_is_false(in)};
	json_t *env = config != NULL ? exec_env(t->k, json_object_get(config, "envs")) : NULL;
	char *own_tag = tag != NULL ? strdup(tag) : NULL;
	struct err e = ERR_INIT;
	int r = -EINVAL;

	if (config == NULL)
		fail(t, FAIL_INVALID_ARGUMENT, "%s", why);
	else if (pty != NULL && !pty_size(pty, &w.rows, &w.cols))
		fail(t, FAIL_INVALID_ARGUMENT, "pty: size has no rows and cols");
	else if (env == NULL)
		talk_cut(t);
	else {
		w.cmd = json_string_value(json_object_get(config, "cmd"));
		w.args = json_object_get(config, "args");
		w.env = env;
		r = proc_start(t, &w, config, own_tag, &e);
		if (r < 0)
			fail(t, r == -E2BIG ? FAIL_INVALID_ARGUMENT : FAIL_RESOURCE_EXHAUSTED, "%s",
			     e.msg);
	}
	json_decref(env);
	if (r < 0) {
		json_decref(config);
		free(own_tag);
	}
	return r;
}

static void start_free(struct talk *t)
{
	struct start *s = t->arg;

	t->ops = NULL;
	t->arg = NULL;
	query_drop(&s->q);
	json_decref(s->req);
	free(s);
}

static const struct talk_ops start_ops = {.closed = start_free};

static void on_folder(struct query *q, const struct stream_result *r)
{
	struct start *s = (struct start *)q;
	struct talk *t = s->t;
	json_t *req = json_incref(s->req);
	char cwd[4096];

	memcpy(cwd, s->cwd, sizeof(cwd));
	start_free(t);
	if (r->how != HOW_DONE && (r->err == ENOENT || r->err == ENOTDIR))
		fail(t, FAIL_INVALID_ARGUMENT, "cwd '%s' does not exist", cwd);
	else
		(void)start_now(t, req, cwd);
	json_decref(req);
}

static void look_first(struct talk *t, json_t *req, const char *cwd)
{
	struct start *s = calloc(1, sizeof(*s));
	struct err e = ERR_INIT;
	struct msg_writer w;
	struct buf msg;
	int r;

	if (s == NULL) {
		talk_cut(t);
		return;
	}
	s->t = t;
	s->req = json_incref(req);
	memcpy(s->cwd, cwd, strlen(cwd) + 1);
	t->ops = &start_ops;
	t->arg = s;
	w = query_begin(&msg, REQ_STAT, 0, t->user->spec);
	msg_str(&w, F_PATH, cwd);
	r = w.err < 0 ? w.err : query_open(t->k, &s->q, &msg, MSG_RECORD_MAX + 4, on_folder, &e);
	buf_done(&msg);
	if (r < 0) {
		start_free(t);
		fail(t, FAIL_RESOURCE_EXHAUSTED, "%s", e.msg);
	}
}

void process_start(struct talk *t, json_t *req)
{
	const char *given = rpc_text(rpc_get(rpc_get(req, "process", NULL), "cwd", NULL));
	const char *plain = t->k->a->spec->workdir;
	char cwd[4096];

	if (users_path(t->user, given != NULL ? given : plain != NULL ? plain : "", cwd) < 0)
		fail(t, FAIL_INVALID_ARGUMENT, "cwd: longer than 4095 bytes");
	else if (given != NULL && *given != '\0')
		look_first(t, req, cwd);
	else
		(void)start_now(t, req, cwd);
}

/* ---- the others ---- */

void process_connect(struct talk *t, json_t *req)
{
	struct proc *p = proc_find(t, req, true);

	if (p != NULL && proc_view(p, t) < 0)
		talk_cut(t);
}

void process_list(struct talk *t, json_t *req)
{
	json_t *list = json_array();

	(void)req;
	for (const struct proc *p = t->k->procs; p != NULL; p = p->next) {
		json_t *o;

		if (!p->started || p->ended)
			continue;
		o = json_pack("{s:O, s:I}", "config", p->config, "pid", (json_int_t)p->pid);
		if (o != NULL && p->tag != NULL)
			(void)json_object_set_new(o, "tag", json_string(p->tag));
		(void)json_array_append_new(list, o);
	}
	talk_json(t, 200, json_pack("{s:o}", "processes", list));
}

/* What brig's clients pass on for people; E2B's know TERM and KILL. */
static bool is_offered(int sig)
{
	return sig == SIGKILL || sig == SIGTERM || sig == SIGINT || sig == SIGHUP || sig == SIGQUIT || sig == SIGUSR1 ||
	       sig == SIGUSR2;
}

/* By name or number; 0 = none that is offered. */
static int signal_of(const json_t *v)
{
	const char *s = rpc_text(v);
	uint32_t n = 0;

#define SIGNAL_WORD(sig, word)                                                                     \
	if (s != NULL && strcmp(s, "SIGNAL_" #sig) == 0)                                                        \
		return is_offered(sig) ? sig : 0;
#include "wire/signal_words.def"
#undef SIGNAL_WORD
	return rpc_u32(v, &n) && n < 32 && is_offered((int)n) ? (int)n : 0;
}

/* SIGKILL is for all that it started, wherever that has gone: a client that kills wants it gone. */
void process_signal(struct talk *t, json_t *req)
{
	int sig = signal_of(rpc_get(req, "signal", NULL));
	struct proc *p;

	if (sig == 0) {
		fail(t, FAIL_UNIMPLEMENTED, "signal: SIGNAL_SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 or SIGUSR2 is wanted");
		return;
	}
	p = proc_find(t, req, false);
	if (p == NULL)
		return;
	if (sig == SIGKILL)
		exec_kill(&p->x);
	else if (p->x.s != NULL)
		stream_signal(p->x.s, sig);
	rpc_empty(t);
}

void process_update(struct talk *t, json_t *req)
{
	struct proc *p = proc_find(t, req, false);
	json_t *pty = rpc_get(req, "pty", NULL);
	uint16_t rows = 0, cols = 0;

	if (p == NULL)
		return;
	if (pty != NULL && !pty_size(pty, &rows, &cols)) {
		fail(t, FAIL_INVALID_ARGUMENT, "pty: size has no rows and cols");
		return;
	}
	if (pty != NULL && !p->tty) {
		fail(t, FAIL_INTERNAL, "the process has no terminal");
		return;
	}
	if (pty != NULL && p->x.s != NULL)
		stream_resize(p->x.s, rows, cols);
	rpc_empty(t);
}

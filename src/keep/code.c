#include "keep/code.h"

#include "base/num.h"
#include "keep/code_event.h"
#include "keep/priv.h"
#include "keep/rpc.h"
#include "parse/uri.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

/* The table of contexts and the calls of port 49999. Failures are text, as its clients show them.
 */

static const struct code_lang langs[] = {
#define LANG(word, alias, boot) {word, alias, boot},
#include "keep/code_langs.def"
#undef LANG
};

static void answer(struct talk *t, unsigned status, const char *type, const char *text)
{
	struct buf b;

	buf_init(&b, 4096);
	if (buf_put(&b, text, strlen(text)) < 0)
		talk_cut(t);
	else
		talk_answer(t, status, type, &b);
	buf_done(&b);
}

static void say(struct talk *t, unsigned status, const char *text)
{
	answer(t, status, "text/plain; charset=utf-8", text);
}

/* ---- contexts ---- */

static const struct code_lang *lang(const char *word)
{
	for (size_t i = 0; i < ARRAY_LEN(langs); i++)
		if (strcasecmp(word, langs[i].word) == 0 || strcasecmp(word, langs[i].alias) == 0)
			return &langs[i];
	return NULL;
}

/* A random UUID (RFC 9562, 5.4). */
static int new_id(char id[40])
{
	uint8_t b[16];

	if (getrandom(b, sizeof(b), 0) != (ssize_t)sizeof(b))
		return -EIO;
	b[6] = (b[6] & 0x0f) | 0x40;
	b[8] = (b[8] & 0x3f) | 0x80;
	for (size_t i = 0, at = 0; i < sizeof(b); i++, at += 2) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			id[at++] = '-';
		(void)snprintf(id + at, 3, "%02x", b[i]);
	}
	return 0;
}

static struct code_context *context_new(struct code *code, const struct code_lang *l,
					const char *cwd)
{
	struct code_context *c = calloc(1, sizeof(*c)), **at = &code->contexts;

	if (c == NULL || new_id(c->id) < 0 || (cwd != NULL && (c->cwd = strdup(cwd)) == NULL)) {
		free(c);
		return NULL;
	}
	c->code = code;
	c->lang = l;
	buf_init(&c->line, CODE_LINE_MAX + 1);
	buf_init(&c->commands, 32 * 1024 * 1024); /* one of a client's, JSON within JSON */
	while (*at != NULL)
		at = &(*at)->next;
	*at = c;
	return c;
}

int code_begin(struct keep *k)
{
	struct code *code;

	if (k->a->interp_fd < 0)
		return 0;
	code = calloc(1, sizeof(*code));
	if (code == NULL)
		return -ENOMEM;
	k->code = code;
	code->k = k;
	for (size_t i = 0; i < ARRAY_LEN(langs); i++)
		if (langs[i].boot && context_new(code, &langs[i], NULL) == NULL)
			return -ENOMEM;
	code_pump(code->contexts); /* the first row is up when somebody comes */
	return 0;
}

bool code_comes(const struct keep *k)
{
	const struct code_context *c = k->code != NULL ? k->code->contexts : NULL;

	return c != NULL && !c->ready && (k->code->writing != NULL || c->x.s != NULL);
}

void code_came(struct keep *k)
{
	for (struct talk *t = k->talks; t != NULL; t = t->next)
		if (t->waits_code) {
			t->waits_code = false;
			talk_status(t, 204);
		}
}

void code_done(struct keep *k)
{
	struct code *code = k->code;

	while (code != NULL && code->contexts != NULL) {
		struct code_context *c = code->contexts;

		while (c->jobs != NULL)
			code_job_free(c->jobs);
		timer_clear(&k->timers, &c->again);
		buf_done(&c->line);
		buf_done(&c->commands);
		code->contexts = c->next;
		free(c->cwd);
		free(c);
	}
	free(code);
	k->code = NULL;
}

static struct code *code_of(struct talk *t)
{
	if (t->k->code == NULL)
		say(t, 501, "The template of this sandbox has no code interpreter");
	return t->k->code;
}

static struct code_context *by_id(const struct code *code, const char *id, size_t n)
{
	for (struct code_context *c = code->contexts; c != NULL; c = c->next)
		if (!c->gone && strlen(c->id) == n && memcmp(c->id, id, n) == 0)
			return c;
	return NULL;
}

static void not_found(struct talk *t, const char *id, size_t n)
{
	char text[200];

	(void)snprintf(text, sizeof(text), "Context %.*s not found", (int)MIN(n, (size_t)64), id);
	say(t, 404, text);
}

/* The language a request names, python without one; NULL after the failure was told. */
static const struct code_lang *wanted_lang(struct talk *t, json_t *v)
{
	const char *word = v != NULL ? rpc_text(v) : "python";
	const struct code_lang *l = word != NULL ? lang(word) : NULL;
	char text[200];

	if (l == NULL) {
		(void)snprintf(
		    text, sizeof(text),
		    "Language %.40s is not served: python, javascript, typescript and bash are",
		    word != NULL ? word : "(no text)");
		say(t, 500, text);
	}
	return l;
}

static uint32_t count(const struct code *code)
{
	uint32_t n = 0;

	for (const struct code_context *c = code->contexts; c != NULL; c = c->next)
		n++;
	return n;
}

static struct code_context *make(struct talk *t, struct code *code, const struct code_lang *l,
				 const char *cwd)
{
	struct code_context *c = count(code) < CONTEXTS_MAX ? context_new(code, l, cwd) : NULL;

	if (c == NULL)
		say(t, 500,
		    count(code) < CONTEXTS_MAX ? "out of memory"
					       : "the sandbox has 64 contexts already");
	return c;
}

/* The oldest of a language is the one for code that names no context. */
static struct code_context *by_lang(struct talk *t, struct code *code, const struct code_lang *l)
{
	for (struct code_context *c = code->contexts; c != NULL; c = c->next)
		if (!c->gone && c->lang == l && c->cwd == NULL)
			return c;
	return make(t, code, l, NULL);
}

/* ---- calls ---- */

static struct code_context *wanted_context(struct talk *t, struct code *code, json_t *id,
					   json_t *language)
{
	const char *text = rpc_text(id);
	const struct code_lang *l;
	struct code_context *c;

	if (id != NULL && language != NULL) {
		say(t, 400, "Only one of context_id or language can be provided");
		return NULL;
	}
	if (id != NULL) {
		c = text != NULL ? by_id(code, text, strlen(text)) : NULL;
		if (c == NULL)
			not_found(t, text != NULL ? text : "", text != NULL ? strlen(text) : 0);
		return c;
	}
	l = wanted_lang(t, language);
	return l != NULL ? by_lang(t, code, l) : NULL;
}

void code_execute(struct talk *t, json_t *req)
{
	struct code *code = code_of(t);
	json_t *text = rpc_get(req, "code", "code"), *env = rpc_get(req, "env_vars", "env_vars"),
	       *command;
	struct code_context *c;
	int r;

	if (code == NULL)
		return;
	if (rpc_text(text) == NULL) {
		say(t, 400, "code: a text is wanted");
		return;
	}
	if (env != NULL && (!json_is_object(env) || !rpc_strings(env))) {
		say(t, 400, "env_vars: names and texts are wanted");
		return;
	}
	c = wanted_context(t, code, rpc_get(req, "context_id", "context_id"),
			   rpc_get(req, "language", "language"));
	if (c == NULL)
		return;
	command = json_pack("{s:s, s:O}", "op", "execute", "code", text);
	if (command != NULL && env != NULL)
		(void)json_object_set(command, "env", env);
	r = command == NULL ? -ENOMEM : code_job_new(c, t, command);
	if (r < 0)
		say(t, r == -EAGAIN ? 429 : 500,
		    r == -EAGAIN ? "too much waits in this context" : "out of memory");
	else
		code_pump(c);
}

static json_t *describe(const struct code_context *c)
{
	return json_pack("{s:s, s:s, s:s}", "id", c->id, "language", c->lang->word, "cwd",
			 c->cwd != NULL ? c->cwd : "/home/user");
}

void code_contexts(struct talk *t, json_t *req)
{
	const struct code *code = code_of(t);
	json_t *list = json_array();

	(void)req;
	if (code == NULL) {
		json_decref(list);
		return;
	}
	for (const struct code_context *c = code->contexts; c != NULL; c = c->next)
		if (!c->gone)
			(void)json_array_append_new(list, describe(c));
	talk_json(t, 200, list);
}

void code_context_new(struct talk *t, json_t *req)
{
	struct code *code = code_of(t);
	json_t *cwd = rpc_get(req, "cwd", "cwd");
	const char *path = cwd != NULL ? rpc_text(cwd) : NULL;
	const struct code_lang *l =
	    code != NULL ? wanted_lang(t, rpc_get(req, "language", "language")) : NULL;
	struct code_context *c;

	if (l == NULL)
		return;
	if (cwd != NULL && (path == NULL || path[0] != '/' || strlen(path) > 4095)) {
		say(t, 400, "cwd: an absolute path is wanted");
		return;
	}
	c = make(t, code, l, path != NULL ? path : "/home/user");
	if (c == NULL)
		return;
	code_pump(c);
	talk_json(t, 200, describe(c));
}

/* `/code/contexts/{id}` and what follows. */
static struct code_context *in_path(struct talk *t, const char *after)
{
	const char *id = route_rest(t);
	size_t n = uri_path_len(t->head.target) - (size_t)(id - t->head.target), m = strlen(after);
	struct code *code = code_of(t);
	struct code_context *c = NULL;

	if (code == NULL)
		return NULL;
	if (n >= m && memcmp(id + n - m, after, m) == 0)
		c = by_id(code, id, n - m);
	if (c == NULL)
		not_found(t, id, n >= m ? n - m : n);
	return c;
}

void code_context_remove(struct talk *t, json_t *req)
{
	struct code_context *c = in_path(t, "");

	(void)req;
	if (c == NULL)
		return;
	c->gone = true;
	code_forget(c);
	answer(t, 200, "application/json", "null");
}

void code_context_restart(struct talk *t, json_t *req)
{
	struct code_context *c = in_path(t, "/restart");

	(void)req;
	if (c == NULL)
		return;
	code_stop(c);
	code_pump(c);
	answer(t, 200, "application/json", "null");
}

void code_health(struct talk *t, json_t *req)
{
	(void)req;
	if (code_of(t) != NULL)
		say(t, 200, "OK");
}

/* `brig logs`: what brigd noted of a sandbox. What its processes print is not kept by anybody;
 * `brig exec` shows that. */
#include "base/num.h"
#include "base/quote.h"
#include "client/client.h"
#include "client/watch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define OPT_WANT_FOLLOW
#define OPT_WANT_JSON
#include "client/options.h"

enum { EVERY_MS = 1000 };

struct logs {
	bool follow, json;
	char id[BOX_ID_MAX + 1];
	int64_t from_ms; /* the time of the last line */
	size_t same;	 /* lines of that time that were shown */
};

static int take(void *arg, int id, const char *value, struct err *e)
{
	struct logs *l = arg;

	(void)value;
	(void)e;
	l->follow = l->follow || id == O_FOLLOW;
	l->json = l->json || id == O_JSON;
	return 0;
}

static int show(const struct logs *l, json_t *line, struct err *e)
{
	const char *at = api_text(line, "timestamp"), *level = api_text(line, "level"),
		   *text = api_text(line, "message");
	char q1[QUOTE_MAX], q2[QUOTE_MAX], q3[QUOTE_MAX];

	if (l->json)
		return client_print(json_incref(line), e);
	(void)printf("%s  %-5s  %s\n", quote_bare(at != NULL ? at : "-", q1),
		     quote_bare(level != NULL ? level : "-", q2),
		     quote_bare(text != NULL ? text : "", q3));
	return client_flush(e);
}

/* The cursor is a time, and a line of that very time comes again: as many as were shown are left
 * out. */
static int show_new(struct logs *l, const json_t *list, struct err *e)
{
	int64_t from = l->from_ms;
	size_t skip = l->same;
	int r = 0;

	for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
		json_t *line = json_array_get(list, i);
		int64_t at = client_time(api_text(line, "timestamp"));

		if (at == from && skip > 0) {
			skip--;
			continue;
		}
		l->same = at == l->from_ms ? l->same + 1 : 1;
		l->from_ms = at;
		r = show(l, line, e);
	}
	return r;
}

/* 1: the sandbox has ended. */
static int look(struct client *c, struct logs *l, bool first, struct err *e)
{
	char path[160];
	json_t *o = NULL;
	int r;

	(void)snprintf(path, sizeof(path), "/v2/sandboxes/%s/logs?cursor=%" PRId64, l->id,
		       l->from_ms);
	r = api_call(c, "GET", path, NULL, JSON_OBJECT, &o, e);
	if (r == -ENOENT)
		return first ? api_missing(c, l->id, e) : 1;
	if (r == 0)
		r = show_new(l, json_object_get(o, "logs"), e);
	json_decref(o);
	return r;
}

static int logs(struct client *c, struct logs *l, const char *word, struct err *e)
{
	int r = client_open(c, e);

	if (r == 0)
		r = api_find_id(c, word, l->id, e);
	if (r == 0 && l->follow)
		r = watch_begin(e);
	if (r == 0)
		r = look(c, l, true, e);
	while (r == 0 && l->follow && watch_wait(EVERY_MS))
		r = look(c, l, false, e);
	return r < 0 ? r : 0;
}

static int logs_run(int argc, char **argv)
{
	struct client c = {.http = {.multi = NULL}};
	struct logs l = {.from_ms = 0};
	struct err e = ERR_INIT;
	int r;

	(void)argc;
	r = client_options(&c, opts, ARRAY_LEN(opts), argv, -1, take, &l, &e);
	if (r >= 0)
		r = client_count(r, 1, 1, "name one sandbox", &e);
	if (r >= 0)
		r = logs(&c, &l, argv[1], &e);
	return client_end(&c, "logs", r, &e);
}

const struct command_impl client_logs = {
    .run = logs_run,
    .opts = opts,
    .nopts = ARRAY_LEN(opts),
    .words = "SANDBOXES",
    .notes = "Created, paused, ended: what the daemon saw. What processes print is not kept. "
	     "--json prints one\n"
	     "object a line.\n",
};

/* `brig ps`: the list of the caller's sandboxes. */
#include "base/num.h"
#include "client/boxes.h"
#include "client/client.h"
#include "client/watch.h"
#include "cmd/say.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define OPT_WANT_ALL "also those that have ended, as long as the daemon remembers them (a week)"
#define OPT_WANT_FILTER
#define OPT_WANT_JSON
#include "client/options.h"

enum { EVERY_MS = 2000, ENDED_MAX = 1000 };

struct look {
	json_t *pairs; /* of --filter */
	const char *state, *template;
	bool all, quiet, watch, json;
};

static int take(void *arg, int id, const char *value, struct err *e)
{
	struct look *l = arg;

	switch (id) {
	case O_FILTER:
		return client_pair(l->pairs, value, "--filter", e);
	case O_STATE:
		if (strcmp(value, "running") != 0 && strcmp(value, "paused") != 0)
			return err_set(e, ERR_INVALID, EINVAL,
				       "--state: running or paused is wanted");
		l->state = value;
		return 0;
	case O_TEMPLATE:
		l->template = value;
		return 0;
	default:
		l->all = l->all || id == O_ALL;
		l->quiet = l->quiet || id == O_QUIET;
		l->watch = l->watch || id == O_WATCH;
		l->json = l->json || id == O_JSON;
		return 0;
	}
}

static int put(struct buf *b, const char *s) { return buf_put(b, s, strlen(s)); }

/*
 * "&metadata=..." as the API wants it: each name and value is encoded, the pairs are encoded as a
 * whole, and that is the value of the query's parameter, encoded once more.
 */
static int put_metadata(struct buf *b, json_t *pairs)
{
	struct buf inner = {.max = 16 * 1024}, outer = {.max = 48 * 1024};
	const char *name;
	json_t *value;
	int r = 0;

	json_object_foreach(pairs, name, value)
	{
		if (r == 0 && inner.len > 0)
			r = put(&inner, "&");
		if (r == 0)
			r = http_put_encoded(&inner, name);
		if (r == 0)
			r = put(&inner, "=");
		if (r == 0)
			r = http_put_encoded(&inner, json_string_value(value));
	}
	if (r == 0)
		r = buf_put(&inner, "", 1);
	if (r == 0)
		r = http_put_encoded(&outer, (const char *)buf_head(&inner));
	if (r == 0)
		r = buf_put(&outer, "", 1);
	if (r == 0)
		r = put(b, "&metadata=");
	if (r == 0)
		r = http_put_encoded(b, (const char *)buf_head(&outer));
	buf_done(&inner);
	buf_done(&outer);
	return r;
}

static int make_query(const struct look *l, struct buf *b, struct err *e)
{
	int r = 0;

	if (l->state != NULL) {
		r = put(b, "&state=");
		if (r == 0)
			r = http_put_encoded(b, l->state);
	}
	if (r == 0 && l->template != NULL) {
		r = put(b, "&template=");
		if (r == 0)
			r = http_put_encoded(b, l->template);
	}
	if (r == 0 && json_object_size(l->pairs) > 0)
		r = put_metadata(b, l->pairs);
	if (r == 0)
		r = buf_put(b, "", 1);
	return r < 0 ? err_set(e, ERR_INVALID, EINVAL, "--filter: longer than a request may be")
		     : 0;
}

static void put_row(struct table *t, const struct look *l, const struct box_row *r, int64_t now)
{
	bool ended = r->ended_ms >= 0;
	char span[SPAN_TEXT];

	table_cell(t, r->id);
	table_cell(t, r->template);
	table_cell(t, r->tier);
	table_cell(t, r->how != NULL ? r->how : r->state);
	table_cell(t, r->started_ms < 0 ? "-" : client_span(now - r->started_ms, span));
	table_cell(t, r->ends_ms < 0 ? "-" : client_span(r->ends_ms - now, span));
	if (ended) {
		table_cell(t, "-");
		table_cell(t, "-");
	} else {
		table_cellf(t, "%lld", (long long)r->cpus);
		table_cell(t, client_size((uint64_t)MIN(r->memory_mb, (json_int_t)INT32_MAX) << 20, span));
	}
	if (l->all)
		table_cell(t, ended ? client_span(now - r->ended_ms, span) : "-");
}

static int print_table(const struct look *l, const json_t *list, struct err *e)
{
	static const char *const head[] = {"ID", "TEMPLATE", "TIER", "STATE", "AGE", "LEFT", "CPUS", "MEMORY", "ENDED"};
	struct table t = {.cols = (unsigned)ARRAY_LEN(head) - !l->all};
	int64_t now = client_now();
	struct box_row row;

	for (size_t i = 0; i < t.cols; i++)
		table_cell(&t, head[i]);
	for (size_t i = 0; i < json_array_size(list); i++) {
		if (box_row_read(json_array_get(list, i), &row) < 0) {
			table_done(&t);
			return err_set(e, ERR_LOST, EPROTO,
				       "the daemon's list has something that is no sandbox");
		}
		put_row(&t, l, &row, now);
	}
	return table_print(&t, e);
}

static int print_ids(const json_t *list, struct err *e)
{
	struct box_row row;

	for (size_t i = 0; i < json_array_size(list); i++)
		if (box_row_read(json_array_get(list, i), &row) == 0)
			(void)puts(row.id);
	return client_flush(e);
}

/* The newest of those that have ended, behind the others. */
static int add_ended(struct client *c, const char *query, json_t *list, struct err *e)
{
	json_t *ended = NULL;
	bool more = false;
	int r = api_ended(c, query, ENDED_MAX, &ended, &more, e);

	if (r == 0 && json_array_extend(list, ended) < 0)
		r = err_no_memory(e);
	json_decref(ended);
	if (r == 0 && more)
		say("of those that have ended only the newest are shown");
	return r;
}

static int look(struct client *c, const struct look *l, const char *query, struct err *e)
{
	json_t *list = NULL;
	int r = api_list(c, query, &list, e);

	if (r == 0 && l->all)
		r = add_ended(c, query, list, e);
	if (r == 0 && l->watch)
		watch_clear();
	if (r == 0 && l->json)
		return client_print(list, e);
	if (r == 0)
		r = l->quiet ? print_ids(list, e) : print_table(l, list, e);
	json_decref(list);
	return r;
}

static int ps(struct client *c, const struct look *l, struct err *e)
{
	struct buf query = {.max = 200 * 1024};
	const char *text;
	int r = make_query(l, &query, e);

	if (r == 0)
		r = client_open(c, e);
	if (r == 0 && l->watch)
		r = watch_begin(e);
	text = (const char *)buf_head(&query);
	do
		r = r == 0 ? look(c, l, text, e) : r;
	while (r == 0 && l->watch && watch_wait(EVERY_MS));
	buf_done(&query);
	return r;
}

static int ps_run(int argc, char **argv)
{
	struct look l = {.pairs = json_object()};
	struct client c = {.http = {.multi = NULL}};
	struct err e = ERR_INIT;
	int r;

	(void)argc;
	r = client_options(&c, opts, ARRAY_LEN(opts), argv, -1, take, &l, &e);
	if (r >= 0)
		r = client_count(r, 0, 0, "it takes no operands", &e);
	if (r >= 0 && l.all && (l.state != NULL || json_object_size(l.pairs) > 0))
		r = err_set(&e, ERR_INVALID, EINVAL, "--all shows every state, and of those that have ended no metadata is kept: --state and "
			    "--filter exclude it");
	if (r >= 0)
		r = ps(&c, &l, &e);
	json_decref(l.pairs);
	return client_end(&c, "ps", r, &e);
}

const struct command_impl client_ps = {
    .run = ps_run,
    .opts = opts,
    .nopts = ARRAY_LEN(opts),
    .words = "",
    .notes = "Sandboxes of this key's tenant that run or are paused, the newest first. CPUS and "
	     "MEMORY are\n"
	     "limits; 'brig top' shows what is used. --all shows the ended ones behind them, the last to\n"
	     "end first, with how that came: killed, timeout, exit (by itself) or lost. --json --watch\n"
	     "prints one list a line.\n",
};

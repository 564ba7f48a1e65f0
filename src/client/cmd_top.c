/* `brig top`: a figure of each sandbox, taken now. CPU time is since the daemon was asked before.
 */
#include "base/num.h"
#include "client/boxes.h"
#include "client/client.h"
#include "client/watch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OPT_WANT_ONCE
#define OPT_WANT_JSON
#include "client/options.h"

enum { EVERY_MS = 2000, AT_ONCE = 100 /* as many the daemon tells at a time */ };

struct top {
	bool once, json;
};

static int take(void *arg, int id, const char *value, struct err *e)
{
	struct top *t = arg;

	(void)value;
	(void)e;
	t->once = t->once || id == O_ONCE;
	t->json = t->json || id == O_JSON;
	return 0;
}

/* The ids that were given, or all that run. *ret: an array of strings. */
static int find(struct client *c, char **argv, int n, json_t **ret, struct err *e)
{
	json_t *ids = json_array(), *list = NULL;
	int r = ids == NULL ? err_no_memory(e) : 0;

	for (int i = 1; r == 0 && i <= n; i++) {
		struct box_ref b;

		r = api_find(c, argv[i], false, &b, e);
		if (r == 0 && json_array_append_new(ids, json_string(b.id)) < 0)
			r = err_no_memory(e);
	}
	if (r == 0 && n == 0)
		r = api_list(c, "", &list, e);
	for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
		const char *id = api_text(json_array_get(list, i), "sandboxID");

		if (id != NULL && api_is_id(id) && json_array_append_new(ids, json_string(id)) < 0)
			r = err_no_memory(e);
	}
	json_decref(list);
	*ret = ids;
	return r;
}

static void put_row(struct table *t, const char *id, const struct box_use *u)
{
	char a[SPAN_TEXT];

	table_cell(t, id);
	table_cellf(t, "%.1f%%", u->cpu_pct);
	table_cellf(t, "%lld", (long long)u->cpus);
	table_cell(t, client_size(u->mem_used, a));
	table_cell(t, u->mem_total > 0 ? client_size(u->mem_total, a) : "-");
	table_cell(t, client_size(u->disk_used, a));
	table_cell(t, u->disk_total > 0 ? client_size(u->disk_total, a) : "-");
}

/* GET /sandboxes/metrics for up to AT_ONCE of ids, from `at` on. *ret: by id; those that ended
 * meanwhile are not in it. */
static int sample(struct client *c, const json_t *ids, size_t at, json_t **ret, struct err *e)
{
	struct buf path = {.max = 256 + AT_ONCE * (BOX_ID_MAX + 1)};
	int r = buf_put(&path, "/sandboxes/metrics?sandbox_ids=", 31);

	for (size_t i = at; r == 0 && i < at + AT_ONCE && i < json_array_size(ids); i++) {
		const char *id = json_string_value(json_array_get(ids, i));

		if (i > at)
			r = buf_put(&path, ",", 1);
		if (r == 0)
			r = buf_put(&path, id, strlen(id));
	}
	if (r == 0)
		r = buf_put(&path, "", 1);
	r = r < 0 ? err_no_memory(e)
		  : api_call(c, "GET", (const char *)buf_head(&path), NULL, JSON_OBJECT, ret, e);
	buf_done(&path);
	return r;
}

/* A row and an object for each of these ids that was told. */
static int take_some(struct client *c, const json_t *ids, size_t at, struct table *t, json_t *all,
		     struct err *e)
{
	json_t *got = NULL;
	int r = sample(c, ids, at, &got, e);

	for (size_t i = at; r == 0 && i < at + AT_ONCE && i < json_array_size(ids); i++) {
		const char *id = json_string_value(json_array_get(ids, i));
		json_t *one = json_object_get(json_object_get(got, "sandboxes"), id);
		struct box_use u;

		if (box_use_read(one, &u) < 0)
			continue;
		put_row(t, id, &u);
		if (json_object_set_new(one, "sandboxID", json_string(id)) < 0 ||
		    json_array_append(all, one) < 0)
			r = err_no_memory(e);
	}
	json_decref(got);
	return r;
}

static int look(struct client *c, const struct top *opt, const json_t *ids, struct err *e)
{
	static const char *const head[] = {"ID", "CPU", "CPUS", "MEMORY", "OF", "DISK", "OF"};
	struct table t = {.cols = ARRAY_LEN(head)};
	json_t *all = json_array();
	int r = all == NULL ? err_no_memory(e) : 0;

	for (size_t i = 0; i < ARRAY_LEN(head); i++)
		table_cell(&t, head[i]);
	for (size_t at = 0; r == 0 && at < json_array_size(ids); at += AT_ONCE)
		r = take_some(c, ids, at, &t, all, e);
	if (r == 0 && !opt->once)
		watch_clear();
	if (r == 0)
		r = opt->json ? client_print(json_incref(all), e) : table_print(&t, e);
	table_done(&t);
	json_decref(all);
	return r;
}

static int top(struct client *c, struct top *t, char **argv, int n, struct err *e)
{
	int r = client_open(c, e);

	t->once = t->once || !isatty(STDOUT_FILENO);
	if (r == 0 && !t->once)
		r = watch_begin(e);
	do {
		json_t *ids = NULL;

		r = r == 0 ? find(c, argv, n, &ids, e) : r;
		if (r == 0)
			r = look(c, t, ids, e);
		json_decref(ids);
	} while (r == 0 && !t->once && watch_wait(EVERY_MS));
	return r;
}

static int top_run(int argc, char **argv)
{
	struct client c = {.http = {.multi = NULL}};
	struct top t = {.once = false};
	struct err e = ERR_INIT;
	int r;

	(void)argc;
	r = client_options(&c, opts, ARRAY_LEN(opts), argv, -1, take, &t, &e);
	if (r >= 0)
		r = top(&c, &t, argv, r, &e);
	return client_end(&c, "top", r, &e);
}

const struct command_impl client_top = {
    .run = top_run,
    .opts = opts,
    .nopts = ARRAY_LEN(opts),
    .words = "SANDBOXES",
    .notes = "On a terminal it is shown again every two seconds. CPU is of one processor, since "
	     "the sample\n"
	     "before (the first: since the start).\n",
};

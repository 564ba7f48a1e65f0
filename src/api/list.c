/*
 * The lists of sandboxes. A page's end is told by a token: the start time and id of its last row, so that a list which changes
 * meanwhile neither repeats nor leaves out what stays in it. Queries come from clients.
 */
#include "api/request.h"

#include "base/num.h"
#include "parse/stamp.h"
#include "parse/uri.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT_MAX = 100, PAIRS_MAX = 32, VALUE_SIZE = 1024 };

struct filter {
	const struct daemon *d;
	const char *tenant;
	bool running, paused, ascending;
	int64_t after_ms;             /* started after; INT64_MIN = all */
	const struct config_template *template;
	json_t *metadata;             /* owned; pairs that must be there; NULL = none */
	struct page page;
};

static bool bad(struct request *q, const char *name)
{
	reply_error(q, 400, "%s: malformed", name);
	return false;
}

/*
 * "a%3Db%2520c" in the query: decoded once by the query, once as a whole, then each side of each pair once more.
 */
static json_t *metadata_of(const char *query)
{
	char whole[4096], again[4096], key[VALUE_SIZE], value[VALUE_SIZE];
	const char *p = again;
	json_t *o = json_object();
	struct uri_pair pair;
	bool fine = o != NULL && uri_get(query, "metadata", whole, sizeof(whole)) >= 0 &&
		    uri_decode(whole, strlen(whole), true, again, sizeof(again)) >= 0;

	while (fine && uri_next(&p, &pair))
		fine = uri_decode(pair.name, pair.name_n, true, key, sizeof(key)) >= 0 &&
		       uri_decode(pair.value, pair.value_n, true, value, sizeof(value)) >= 0 &&
		       json_object_size(o) < PAIRS_MAX && json_object_set_new(o, key, json_string(value)) == 0;
	if (!fine) {
		json_decref(o);
		return NULL;
	}
	return o;
}

static bool fits(const struct filter *f, const struct box *b)
{
	if (strcmp(b->tenant, f->tenant) != 0 || b->killing)
		return false;
	if (!(b->state == BOX_RUNNING && f->running) && !(b->state == BOX_PAUSED && f->paused))
		return false;
	if (b->started_ms <= f->after_ms || (f->template != NULL && strcmp(f->template->name, b->template) != 0))
		return false;
	for (void *it = json_object_iter(f->metadata); it != NULL; it = json_object_iter_next(f->metadata, it))
		if (!json_equal(json_object_get(b->metadata, json_object_iter_key(it)), json_object_iter_value(it)))
			return false;
	return true;
}

static int order(const struct box *a, const struct box *b)
{
	return a->started_ms != b->started_ms ? (a->started_ms < b->started_ms ? -1 : 1) : strcmp(a->id, b->id);
}
static int up(const void *a, const void *b) { return order(*(const struct box *const *)a, *(const struct box *const *)b); }
static int down(const void *a, const void *b) { return up(b, a); }

/* Whether b comes behind the last row of the page before. */
static bool behind(const struct filter *f, const struct box *b)
{
	struct box last = {.started_ms = f->page.from_ms};

	if (f->page.from_id[0] == '\0')
		return true;
	memcpy(last.id, f->page.from_id, sizeof(last.id));
	return f->ascending ? order(b, &last) > 0 : order(b, &last) < 0;
}

static void answer_list(struct request *q, const struct filter *f)
{
	const struct box **rows = malloc(sizeof(struct box *) * MAX(q->d->boxes.n, 1u));
	json_t *list = json_array();
	const struct box *last = NULL;
	char total[16];
	uint32_t n = 0, running = 0, i;
	int failed = rows == NULL || list == NULL;

	for (struct box *b = box_next(&q->d->boxes, NULL); !failed && b != NULL; b = box_next(&q->d->boxes, b)) {
		if (b->state == BOX_RUNNING && strcmp(b->tenant, f->tenant) == 0)
			running++;
		if (fits(f, b) && behind(f, b))
			rows[n++] = b;
	}
	if (!failed && n > 1)
		qsort(rows, n, sizeof(rows[0]), f->ascending ? up : down); // NOLINT: pointers are what is sorted
	for (i = 0; !failed && i < n && i < f->page.limit; i++)
		failed = json_array_append_new(list, box_detail(q->d, rows[i], true));
	if (!failed && i < n)
		last = rows[i - 1];
	free(rows);
	if (failed) {
		json_decref(list);
		list = NULL;
	}
	reply_json(q, 200, list);
	(void)snprintf(total, sizeof(total), "%u", running);
	if (last != NULL)
		page_next(q, last->started_ms, last->id);
	reply_field(q, "X-Total-Running", total);
}

static bool read_states(const char *s, struct filter *f)
{
	f->running = f->paused = false;
	for (;;) {
		size_t n = strcspn(s, ",");

		if (n == 7 && memcmp(s, "running", n) == 0)
			f->running = true;
		else if (n == 6 && memcmp(s, "paused", n) == 0)
			f->paused = true;
		else
			return false;
		s += n;
		if (*s++ == '\0')
			return true;
	}
}

/* ---- pages ---- */

static bool read_token(const char *s, struct page *p)
{
	char *end;
	long long at = strtoll(s, &end, 10);

	if (end == s || *end != '-' || strlen(end + 1) != BOX_ID_SIZE - 1)
		return false;
	p->from_ms = at;
	memcpy(p->from_id, end + 1, BOX_ID_SIZE);
	return true;
}

bool page_read(struct request *q, unsigned long max, struct page *ret)
{
	const char *query = uri_query(q->target);
	char v[128], *end;
	int r;

	*ret = (struct page){.limit = max};
	if ((r = uri_get(query, "limit", v, sizeof(v))) != -ENOENT) {
		ret->limit = r > 0 && v[0] >= '0' && v[0] <= '9' ? strtoul(v, &end, 10) : 0;
		if (ret->limit < 1 || ret->limit > max || *end != '\0')
			return bad(q, "limit");
	}
	if ((r = uri_get(query, "nextToken", v, sizeof(v))) > 0 ? !read_token(v, ret) : r < 0 && r != -ENOENT)
		return bad(q, "nextToken");
	return true;
}

void page_next(struct request *q, int64_t last_ms, const char *last_id)
{
	char token[64];

	(void)snprintf(token, sizeof(token), "%lld-%s", (long long)last_ms, last_id);
	reply_field(q, "X-Next-Token", token);
}

/* ---- the lists ---- */

/* Everything but the state, for the newer list. */
static bool read_query(struct request *q, const char *query, struct filter *f)
{
	char v[128];
	int r;

	if ((r = uri_get(query, "state", v, sizeof(v))) != -ENOENT && (r < 0 || !read_states(v, f)))
		return bad(q, "state");
	if ((r = uri_get(query, "order", v, sizeof(v))) != -ENOENT) {
		f->ascending = r > 0 && strcmp(v, "asc") == 0;
		if (!f->ascending && (r < 0 || strcmp(v, "desc") != 0))
			return bad(q, "order");
	}
	if ((r = uri_get(query, "startedAfter", v, sizeof(v))) != -ENOENT && (r < 0 || stamp_read(v, &f->after_ms) < 0))
		return bad(q, "startedAfter");
	if ((r = uri_get(query, "template", v, sizeof(v))) != -ENOENT) {
		f->template = r > 0 ? config_template(q->d->config, v) : NULL;
		if (f->template == NULL) {
			reply_error(q, 404, "template '%.64s' not found", r > 0 ? v : "");
			return false;
		}
	}
	return page_read(q, LIMIT_MAX, &f->page);
}

void h_list(struct request *q, json_t *body)
{
	const char *query = uri_query(q->target);
	struct filter f = {.d = q->d, .tenant = q->who.tenant, .running = true, .paused = q->v2, .after_ms = INT64_MIN,
			   .page = {.limit = CONFIG_SANDBOXES_MAX}};
	char any[2];

	(void)body;
	if (q->v2 && !read_query(q, query, &f))
		return;
	if (uri_get(query, "metadata", any, sizeof(any)) != -ENOENT) {
		f.metadata = metadata_of(query);
		if (f.metadata == NULL) {
			(void)bad(q, "metadata");
			return;
		}
	}
	answer_list(q, &f);
	json_decref(f.metadata);
}

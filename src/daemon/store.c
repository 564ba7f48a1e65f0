/*
 * Every value reaches SQLite as a bound parameter; statements are the rows of a table. What the database holds was written
 * by brigd (or by `brigd key`), so a row that cannot be read is an error and not an attack; it is checked nevertheless,
 * since a file can be damaged.
 */
#include "daemon/store_priv.h"

#include "base/num.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FLAG_PRIVATE_TRAFFIC = 1, FLAG_PAUSE_AT_END = 2, FLAG_AUTO_RESUME = 4, FLAG_NO_INTERNET = 8, FLAG_WARM = 16 };
enum { BUSY_MS = 5000, CACHE_KIB = 512 };

static const char *const schema[] = {
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=NORMAL", /* WAL: a killed process loses nothing, a loss of power the last commits at most */
#define STATEMENT(text) text,
#include "daemon/store_schema.def"
#undef STATEMENT
};
static const char *const query[] = {
#define QUERY(id, text) text,
#include "daemon/store_queries.def"
#undef QUERY
};

int store_fail(struct store *s, const char *what, struct err *e)
{
	return err_set(e, ERR_INTERNAL, EIO, "store: %s: %s", what, sqlite3_errmsg(s->db));
}

static int prepare(struct store *s, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(schema); i++)
		if (sqlite3_exec(s->db, schema[i], NULL, NULL, NULL) != SQLITE_OK)
			return store_fail(s, "make its tables", e);
	for (size_t i = 0; i < ARRAY_LEN(query); i++)
		if (sqlite3_prepare_v3(s->db, query[i], -1, SQLITE_PREPARE_PERSISTENT, &s->q[i], NULL) !=
		    SQLITE_OK)
			return store_fail(s, "prepare", e);
	return 0;
}

int store_open(const char *path, struct store **ret, struct err *e)
{
	char file[4096];
	struct store *s = calloc(1, sizeof(*s));
	mode_t mask;
	int r, n = snprintf(file, sizeof(file), "%s/brigd.db", path);

	if (s == NULL)
		return err_no_memory(e);
	if (n < 0 || (size_t)n >= sizeof(file)) {
		free(s);
		return err_set(e, ERR_INVALID, ENAMETOOLONG, "store: the path of its folder is too long");
	}
	mask = umask(077);
	r = sqlite3_open_v2(file, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOFOLLOW, NULL);
	if (r == SQLITE_OK) {
		(void)sqlite3_busy_timeout(s->db, BUSY_MS);
		r = prepare(s, e);
	} else {
		r = store_fail(s, "open", e);
	}
	(void)umask(mask);
	if (r < 0) {
		store_close(s);
		return r;
	}
	*ret = s;
	return 0;
}

void store_close(struct store *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; i < ARRAY_LEN(s->q); i++)
		(void)sqlite3_finalize(s->q[i]);
	(void)sqlite3_close(s->db);
	free(s);
}

sqlite3_stmt *store_bind(struct store *s, enum store_query id, const char *key)
{
	sqlite3_stmt *q = s->q[id];

	(void)sqlite3_reset(q);
	(void)sqlite3_clear_bindings(q);
	if (key != NULL)
		(void)sqlite3_bind_text(q, 1, key, -1, SQLITE_STATIC);
	return q;
}

int store_run(struct store *s, sqlite3_stmt *q, const char *what, struct err *e)
{
	int r = sqlite3_step(q);

	if (r == SQLITE_DONE)
		r = 0;
	else
		r = store_fail(s, what, e);
	(void)sqlite3_reset(q);
	return r;
}

void store_text(sqlite3_stmt *q, int column, char *dst, size_t size)
{
	const char *t = (const char *)sqlite3_column_text(q, column);

	(void)snprintf(dst, size, "%s", t != NULL ? t : "");
}

/* ---- sandboxes ---- */

int store_box_put(struct store *s, const struct box *b, struct err *e)
{
	sqlite3_stmt *q = store_bind(s, STORE_BOX_PUT, b->id);
	char *metadata = json_dumps(b->metadata, JSON_COMPACT);
	int flags = (b->private_traffic ? FLAG_PRIVATE_TRAFFIC : 0) | (b->pause_at_end ? FLAG_PAUSE_AT_END : 0) |
		    (b->auto_resume ? FLAG_AUTO_RESUME : 0) | (b->no_internet ? FLAG_NO_INTERNET : 0) |
		    (b->warm ? FLAG_WARM : 0);
	int r;

	if (metadata == NULL)
		return err_no_memory(e);
	(void)sqlite3_bind_text(q, 2, b->tenant, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(q, 3, b->template, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(q, 4, box_state_word(b->state), -1, SQLITE_STATIC);
	(void)sqlite3_bind_int64(q, 5, b->started_ms);
	(void)sqlite3_bind_int64(q, 6, b->ends_ms);
	(void)sqlite3_bind_text(q, 7, metadata, -1, SQLITE_STATIC);
	(void)sqlite3_bind_int(q, 8, flags);
	r = store_run(s, q, "write a sandbox", e);
	(void)sqlite3_clear_bindings(q);
	free(metadata);
	return r;
}

static int take_box(sqlite3_stmt *q, struct box_table *t)
{
	enum box_state state;
	char id[BOX_ID_SIZE], word[BOX_WORD_SIZE];
	struct box *b;
	json_t *metadata;
	int flags = sqlite3_column_int(q, 7);

	store_text(q, 0, id, sizeof(id));
	store_text(q, 3, word, sizeof(word));
	if (box_state_parse(word, &state) < 0 || box_find(t, id) != NULL)
		return -EINVAL;
	b = box_add(t, id, state);
	if (b == NULL)
		return -ENOMEM;
	b->denied_known = false; /* some may be counted already */
	store_text(q, 1, b->tenant, sizeof(b->tenant));
	store_text(q, 2, b->template, sizeof(b->template));
	b->started_ms = sqlite3_column_int64(q, 4);
	b->ends_ms = sqlite3_column_int64(q, 5);
	metadata = json_loads((const char *)sqlite3_column_text(q, 6), JSON_REJECT_DUPLICATES, NULL);
	if (json_is_object(metadata)) {
		json_decref(b->metadata);
		b->metadata = metadata;
	} else {
		json_decref(metadata);
	}
	b->private_traffic = (flags & FLAG_PRIVATE_TRAFFIC) != 0;
	b->pause_at_end = (flags & FLAG_PAUSE_AT_END) != 0;
	b->auto_resume = (flags & FLAG_AUTO_RESUME) != 0;
	b->no_internet = (flags & FLAG_NO_INTERNET) != 0;
	b->warm = (flags & FLAG_WARM) != 0;
	return 0;
}

int store_boxes(struct store *s, struct box_table *t, struct err *e)
{
	sqlite3_stmt *q = store_bind(s, STORE_BOXES, NULL);
	int r, bad = 0;

	while ((r = sqlite3_step(q)) == SQLITE_ROW && bad == 0)
		bad = take_box(q, t);
	(void)sqlite3_reset(q);
	if (bad == -ENOMEM)
		return err_no_memory(e);
	if (bad < 0)
		return err_set(e, ERR_INTERNAL, EINVAL, "store: a row of a sandbox is damaged");
	return r == SQLITE_DONE ? 0 : store_fail(s, "read the sandboxes", e);
}

int store_begin(struct store *s, struct err *e) { return store_run(s, store_bind(s, STORE_BEGIN, NULL), "begin", e); }

int store_commit(struct store *s, int r, struct err *e)
{
	if (r == 0)
		r = store_run(s, store_bind(s, STORE_COMMIT, NULL), "commit", e);
	if (r < 0)
		(void)sqlite3_step(store_bind(s, STORE_ROLLBACK, NULL));
	return r;
}

static int write_end(struct store *s, const char *id, const char *how, const char *result, int64_t now_ms, struct err *e)
{
	sqlite3_stmt *q = store_bind(s, STORE_BOX_ENDED, id);
	char line[64];
	int r;

	(void)sqlite3_bind_int64(q, 2, now_ms);
	(void)sqlite3_bind_text(q, 3, how, -1, SQLITE_STATIC);
	if (result != NULL)
		(void)sqlite3_bind_text(q, 4, result, -1, SQLITE_STATIC);
	r = store_run(s, q, "write an end", e);
	(void)snprintf(line, sizeof(line), "ended: %s", how);
	if (r == 0 && sqlite3_changes(s->db) > 0)
		r = store_log(s, id, now_ms, "info", line, e);
	return r == 0 ? store_box_forget(s, id, e) : r;
}

int store_box_end(struct store *s, const char *id, const char *how, const char *result, int64_t now_ms,
		  struct err *e)
{
	int r = store_begin(s, e);

	return r < 0 ? r : store_commit(s, write_end(s, id, how, result, now_ms, e), e);
}

int store_ends(struct store *s, const char *tenant, int64_t before_ms, const char *before_id, uint32_t limit,
	       void (*each)(const struct store_end *x, void *arg), void *arg, struct err *e)
{
	sqlite3_stmt *q = store_bind(s, STORE_ENDS, tenant);
	int r;

	(void)sqlite3_bind_int64(q, 2, before_ms);
	(void)sqlite3_bind_text(q, 3, before_id, -1, SQLITE_STATIC);
	(void)sqlite3_bind_int64(q, 4, limit);
	while ((r = sqlite3_step(q)) == SQLITE_ROW) {
		struct store_end x = {.id = (const char *)sqlite3_column_text(q, 0),
				      .template = (const char *)sqlite3_column_text(q, 1),
				      .started_ms = sqlite3_column_int64(q, 2),
				      .ended_ms = sqlite3_column_int64(q, 3),
				      .how = (const char *)sqlite3_column_text(q, 4),
				      .result = (const char *)sqlite3_column_text(q, 5)};

		if (x.id != NULL && x.template != NULL && x.how != NULL)
			each(&x, arg);
	}
	(void)sqlite3_reset(q);
	(void)sqlite3_clear_bindings(q);
	return r == SQLITE_DONE ? 0 : store_fail(s, "read the ends", e);
}

int store_box_forget(struct store *s, const char *id, struct err *e)
{
	return store_run(s, store_bind(s, STORE_BOX_FORGET, id), "forget a sandbox", e);
}

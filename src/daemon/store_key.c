/* The store's keys, and the lines about sandboxes. */
#include "daemon/store_priv.h"

#include <errno.h>
#include <string.h>

int store_key_add(struct store *s, const struct store_key *k, struct err *e)
{
	sqlite3_stmt *q = store_bind(s, STORE_KEY_ADD, k->id);

	(void)sqlite3_bind_blob(q, 2, k->hash, sizeof(k->hash), SQLITE_STATIC);
	(void)sqlite3_bind_text(q, 3, k->tenant, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(q, 4, k->name, -1, SQLITE_STATIC);
	(void)sqlite3_bind_int64(q, 5, k->scopes);
	(void)sqlite3_bind_int64(q, 6, k->created_ms);
	(void)sqlite3_bind_int64(q, 7, k->expires_ms);
	return store_run(s, q, "write a key", e);
}

static void take_key(sqlite3_stmt *q, struct store_key *k)
{
	const void *hash = sqlite3_column_blob(q, 1);

	memset(k, 0, sizeof(*k));
	store_text(q, 0, k->id, sizeof(k->id));
	if (hash != NULL && sqlite3_column_bytes(q, 1) == (int)sizeof(k->hash))
		memcpy(k->hash, hash, sizeof(k->hash));
	store_text(q, 2, k->tenant, sizeof(k->tenant));
	store_text(q, 3, k->name, sizeof(k->name));
	k->scopes = (uint32_t)sqlite3_column_int64(q, 4);
	k->created_ms = sqlite3_column_int64(q, 5);
	k->expires_ms = sqlite3_column_int64(q, 6);
}

int store_key_get(struct store *s, const char *id, struct store_key *ret, struct err *e)
{
	sqlite3_stmt *q = store_bind(s, STORE_KEY_GET, id);
	int r = sqlite3_step(q);

	if (r == SQLITE_ROW)
		take_key(q, ret);
	(void)sqlite3_reset(q);
	if (r == SQLITE_ROW)
		return 0;
	return r == SQLITE_DONE ? -ENOENT : store_fail(s, "read a key", e);
}

int store_key_remove(struct store *s, const char *id, struct err *e)
{
	int r = store_run(s, store_bind(s, STORE_KEY_REMOVE, id), "remove a key", e);

	return r == 0 && sqlite3_changes(s->db) == 0 ? -ENOENT : r;
}

int store_keys(struct store *s, void (*each)(const struct store_key *k, void *arg), void *arg, struct err *e)
{
	sqlite3_stmt *q = store_bind(s, STORE_KEYS, NULL);
	struct store_key k;
	int r;

	while ((r = sqlite3_step(q)) == SQLITE_ROW) {
		take_key(q, &k);
		each(&k, arg);
	}
	(void)sqlite3_reset(q);
	return r == SQLITE_DONE ? 0 : store_fail(s, "read the keys", e);
}

int store_log(struct store *s, const char *id, int64_t now_ms, const char *level, const char *message,
	      struct err *e)
{
	sqlite3_stmt *q = store_bind(s, STORE_LOG, id);

	(void)sqlite3_bind_int64(q, 2, now_ms);
	(void)sqlite3_bind_text(q, 3, level, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(q, 4, message, -1, SQLITE_STATIC);
	return store_run(s, q, "write a line", e);
}

int store_log_lines(struct store *s, const char *id, int64_t from_ms, bool backward, uint32_t limit,
		    void (*each)(const struct store_line *l, void *arg), void *arg, struct err *e)
{
	sqlite3_stmt *q = store_bind(s, backward ? STORE_LOG_BACK : STORE_LOG_FORWARD, id);
	int r;

	(void)sqlite3_bind_int64(q, 2, from_ms);
	(void)sqlite3_bind_int64(q, 3, limit);
	while ((r = sqlite3_step(q)) == SQLITE_ROW) {
		struct store_line l = {.at_ms = sqlite3_column_int64(q, 0),
				       .level = (const char *)sqlite3_column_text(q, 1),
				       .message = (const char *)sqlite3_column_text(q, 2)};

		if (l.level != NULL && l.message != NULL)
			each(&l, arg);
	}
	(void)sqlite3_reset(q);
	return r == SQLITE_DONE ? 0 : store_fail(s, "read the lines", e);
}

int store_purge(struct store *s, int64_t before_ms, struct err *e)
{
	static const enum store_query both[] = {STORE_PURGE_LOG, STORE_PURGE_ENDED};

	for (size_t i = 0; i < 2; i++) {
		sqlite3_stmt *q = store_bind(s, both[i], NULL);
		int r;

		(void)sqlite3_bind_int64(q, 1, before_ms);
		r = store_run(s, q, "purge", e);
		if (r < 0)
			return r;
	}
	return 0;
}

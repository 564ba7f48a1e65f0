#pragma once
/* What the files of the store share. */
#include "daemon/store.h"

#include <sqlite3.h>

enum store_query {
#define QUERY(id, text) STORE_##id,
#include "daemon/store_queries.def"
#undef QUERY
	STORE_QUERIES,
};

struct store {
	sqlite3 *db;
	sqlite3_stmt *q[STORE_QUERIES];
};

/* ERR_INTERNAL with SQLite's words. */
int store_fail(struct store *s, const char *what, struct err *e);
/* The statement, ready for its parameters; key: of the first, NULL = not yet. */
sqlite3_stmt *store_bind(struct store *s, enum store_query id, const char *key);
/* Run one that gives no rows. */
int must_check store_run(struct store *s, sqlite3_stmt *q, const char *what, struct err *e);
/* A column, cut to what fits. */
void store_text(sqlite3_stmt *q, int column, char *dst, size_t size);

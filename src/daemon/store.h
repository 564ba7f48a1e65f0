#pragma once
/*
 * What outlives brigd: API keys, live sandboxes, how sandboxes ended, and what happened to them, in one SQLite database
 * (WAL). Each call is one transaction, which survives any death of the process; a loss of power may undo the last.
 *
 * Errors are ERR_INTERNAL with SQLite's words.
 */
#include "base/err.h"
#include "daemon/box.h"
#include "daemon/seal.h"

#include <stdbool.h>
#include <stdint.h>

struct store;

enum { STORE_KEY_ID_SIZE = 17 };

struct store_key {
	char id[STORE_KEY_ID_SIZE]; /* 16 hexadecimal digits, the public part of the key */
	uint8_t hash[SEAL_BYTES];   /* seal_hash of the whole key */
	char tenant[BOX_WORD_SIZE], name[BOX_WORD_SIZE];
	uint32_t scopes;                 /* enum key_scope */
	int64_t created_ms, expires_ms; /* 0 = never */
};

/* Open or make it below the folder `path`. */
int must_check store_open(const char *path, struct store **ret, struct err *e);
void store_close(struct store *s); /* accepts NULL */

int must_check store_key_add(struct store *s, const struct store_key *k, struct err *e);
/* 0, -ENOENT without words. */
int must_check store_key_get(struct store *s, const char *id, struct store_key *ret, struct err *e);
/* 0, -ENOENT without words. */
int must_check store_key_remove(struct store *s, const char *id, struct err *e);
/* Each key, oldest first. */
int must_check store_keys(struct store *s, void (*each)(const struct store_key *k, void *arg), void *arg, struct err *e);

/* What is written between them is written together or not at all; store_commit with an r < 0 takes it back and returns r. */
int must_check store_begin(struct store *s, struct err *e);
int must_check store_commit(struct store *s, int r, struct err *e);

/* Write what b says, new or changed. */
int must_check store_box_put(struct store *s, const struct box *b, struct err *e);
/* All that lived when brigd last ran, into t. */
int must_check store_boxes(struct store *s, struct box_table *t, struct err *e);
/* It is no more: the live row goes, a row of its end and a line of its log are there from now on; nothing changes when there
 * was no live row. how: "killed", ...; result: JSON or NULL. */
int must_check store_box_end(struct store *s, const char *id, const char *how, const char *result, int64_t now_ms,
			     struct err *e);
/* The live row goes without a trace: it never came to be used. */
int must_check store_box_forget(struct store *s, const char *id, struct err *e);

struct store_end {
	const char *id, *template, *how; /* borrowed for the call */
	const char *result;		 /* JSON; NULL = none is known */
	int64_t started_ms, ended_ms;
};
/* How sandboxes of a tenant ended, at most `limit`, the newest end first: those that come behind an end at before_ms of
 * before_id. */
int must_check store_ends(struct store *s, const char *tenant, int64_t before_ms, const char *before_id, uint32_t limit,
			  void (*each)(const struct store_end *x, void *arg), void *arg, struct err *e);

/* Something happened to a sandbox; level "info", "warn" or "error". */
int must_check store_log(struct store *s, const char *id, int64_t now_ms, const char *level, const char *message,
			 struct err *e);
struct store_line {
	int64_t at_ms;
	const char *level, *message; /* borrowed for the call */
};
/* Lines of a sandbox at or after (before, if backward) from_ms, at most `limit`. */
int must_check store_log_lines(struct store *s, const char *id, int64_t from_ms, bool backward, uint32_t limit,
			       void (*each)(const struct store_line *l, void *arg), void *arg, struct err *e);
/* Drop ends and lines of sandboxes that ended before then. */
int must_check store_purge(struct store *s, int64_t before_ms, struct err *e);

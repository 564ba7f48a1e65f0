#pragma once
/*
 * API keys: "e2b_" and 64 hexadecimal digits, of which the first 16 name the key and the rest are 192 random bits. The
 * store keeps a keyed hash of the whole.
 */
#include "daemon/seal.h"
#include "daemon/store.h"

enum { KEY_SIZE = 4 + 64 + 1 };

enum key_scope {
#define SCOPE(id, bit, word, text) SCOPE_##id = 1u << (bit),
#include "daemon/scopes.def"
#undef SCOPE
};

/* Make a key of this tenant and store it. tenant: 1 to 63 of [A-Za-z0-9._-]. expires_ms: 0 = never. */
int must_check key_make(struct store *s, const struct seal *seal, const char *tenant, const char *name,
			uint32_t scopes, int64_t now_ms, int64_t expires_ms, char ret[KEY_SIZE], struct err *e);
/* Who gives this word: 0; -EACCES unknown, wrong or expired, in the same time; or a failure of the store. */
int must_check key_check(struct store *s, const struct seal *seal, const char *word, int64_t now_ms,
			 struct store_key *ret, struct err *e);
/* "read,write" to bits. */
int must_check key_scopes(const char *words, uint32_t *ret, struct err *e);
/* The word of the bit at *at and on; NULL = no more. */
const char *key_scope_word(uint32_t set, size_t *at);

/* ---- key_command.c: `brigd key create`, `list` and `remove ID`. Prints what was asked for. ---- */

struct key_words { /* borrowed */
	const char *tenant, *name, *scopes;
	const char *expires; /* a duration; NULL = never */
	bool json;
};
/* state: the daemon's state folder. words: n of them, behind `key`. */
int must_check key_command(const char *state, const struct key_words *k, char **words, int n, struct err *e);

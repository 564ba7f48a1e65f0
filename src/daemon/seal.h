#pragma once
/*
 * The server's secret: 32 random bytes in a file of the state folder, made at the first start. Tokens are derived from it
 * and hashes of API keys are keyed with it, so that a copy of the database alone opens nothing.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { SEAL_BYTES = 32, SEAL_TOKEN_SIZE = 2 * SEAL_BYTES + 1 };

struct seal {
	uint8_t key[SEAL_BYTES];
};

/* Read "secret" below the folder, or make it. The file must be the caller's own and nobody else's to read. */
int must_check seal_open(int dir_fd, struct seal *ret, struct err *e);
void seal_close(struct seal *s); /* wipes it */
/* The token of this kind ("access", "traffic") for this sandbox: hexadecimal digits. */
void seal_token(const struct seal *s, const char *kind, const char *id, char dst[SEAL_TOKEN_SIZE]);
/* What is kept of a secret word. */
void seal_hash(const struct seal *s, const char *word, uint8_t dst[SEAL_BYTES]);
/* Whether two strings are the same; the time depends on the length of `given` only. */
bool seal_same(const char *given, const char *want);

#pragma once
/*
 * Signatures of file URLs: "v1_" and base64 without padding of the SHA-256 of
 * "<path>:<read|write>:<user>:<access token>[:<expiration>]", each as it stands decoded in the query.
 */
#include "base/err.h"

#include <sodium.h>
#include <stdbool.h>
#include <stdint.h>

enum { SIGN_SIZE = 3 + 43 + 1 };

/* expiration: digits, NULL = none. -ENOMEM. */
int must_check sign_make(const char *path, const char *verb, const char *user, const char *token,
			 const char *expiration, char dst[SIGN_SIZE]);

/* What a query says of a file. */
struct sign_query {
	char path[4096], user[256], signature[128], expiration[24];
	bool has_signature, has_expiration;
	const char *bad; /* a parameter that cannot be read; NULL = none */
};
void sign_read(const char *target, struct sign_query *ret);
/* Whether it was made with this token; in constant time. Says nothing of its expiration. */
bool sign_fits(const struct sign_query *q, const char *verb, const char *token);

/* The same for one query and many tokens: what comes before the token, up to 4 KiB, is hashed once. */
struct sign_search {
	const struct sign_query *q;
	crypto_hash_sha256_state before;
	uint8_t want[crypto_hash_sha256_BYTES];
};
/* False: no token made this signature. */
bool sign_search_begin(struct sign_search *s, const struct sign_query *q, const char *verb);
bool sign_search_fits(const struct sign_search *s, const char *token);
/* Whether its time is over. One that is no number is over. */
bool sign_over(const struct sign_query *q, int64_t now_s);

/* Fed by queries of clients; tokens are the server's. */
#include "api/sign.h"

#include "base/base64.h"
#include "base/cleanup.h"
#include "daemon/seal.h"
#include "parse/uri.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

int sign_make(const char *path, const char *verb, const char *user, const char *token, const char *expiration,
	      char dst[SIGN_SIZE])
{
	const char *const parts[] = {path, ":", verb, ":", user, ":", token, expiration != NULL ? ":" : NULL, expiration};
	crypto_hash_sha256_state st;
	uint8_t h[crypto_hash_sha256_BYTES];
	_cleanup_free_ char *text = NULL;

	(void)crypto_hash_sha256_init(&st);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && parts[i] != NULL; i++)
		(void)crypto_hash_sha256_update(&st, (const uint8_t *)parts[i], strlen(parts[i]));
	(void)crypto_hash_sha256_final(&st, h);
	text = base64_encode(h, sizeof(h));
	if (text == NULL)
		return -ENOMEM;
	(void)snprintf(dst, SIGN_SIZE, "v1_%.*s", (int)strcspn(text, "="), text);
	return 0;
}

static bool take(const char *query, const char *name, char *dst, size_t size, struct sign_query *q)
{
	int r = uri_get(query, name, dst, size);

	if (r == -ENOENT)
		dst[0] = '\0';
	else if (r < 0)
		q->bad = name;
	return r >= 0;
}

void sign_read(const char *target, struct sign_query *ret)
{
	const char *query = uri_query(target);

	ret->bad = NULL;
	(void)take(query, "path", ret->path, sizeof(ret->path), ret);
	(void)take(query, "username", ret->user, sizeof(ret->user), ret);
	ret->has_signature = take(query, "signature", ret->signature, sizeof(ret->signature), ret);
	ret->has_expiration =
	    take(query, "signature_expiration", ret->expiration, sizeof(ret->expiration), ret);
}

bool sign_fits(const struct sign_query *q, const char *verb, const char *token)
{
	char want[SIGN_SIZE];

	return q->bad == NULL && q->has_signature &&
	       sign_make(q->path, verb, q->user, token, q->has_expiration ? q->expiration : NULL, want) == 0 &&
	       seal_same(q->signature, want);
}

bool sign_over(const struct sign_query *q, int64_t now_s)
{
	int64_t at = 0;

	if (!q->has_expiration)
		return false;
	for (const char *p = q->expiration; *p != '\0'; p++) {
		if (*p < '0' || *p > '9' || p - q->expiration > 15)
			return true;
		at = at * 10 + (*p - '0');
	}
	return at <= now_s || q->expiration[0] == '\0';
}

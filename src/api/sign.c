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

static void put(crypto_hash_sha256_state *st, const char *s)
{
	(void)crypto_hash_sha256_update(st, (const uint8_t *)s, strlen(s));
}

static void sign_hash_begin(crypto_hash_sha256_state *st, const char *path, const char *verb, const char *user)
{
	const char *const parts[] = {path, ":", verb, ":", user, ":"};

	(void)crypto_hash_sha256_init(st);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		put(st, parts[i]);
}

static void sign_hash_end(crypto_hash_sha256_state *st, const char *token, const char *expiration,
			  uint8_t h[crypto_hash_sha256_BYTES])
{
	put(st, token);
	if (expiration != NULL) {
		put(st, ":");
		put(st, expiration);
	}
	(void)crypto_hash_sha256_final(st, h);
}

int sign_make(const char *path, const char *verb, const char *user, const char *token, const char *expiration,
	      char dst[SIGN_SIZE])
{
	crypto_hash_sha256_state st;
	uint8_t h[crypto_hash_sha256_BYTES];
	_cleanup_free_ char *text = NULL;

	sign_hash_begin(&st, path, verb, user);
	sign_hash_end(&st, token, expiration, h);
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

bool sign_search_begin(struct sign_search *s, const struct sign_query *q, const char *verb)
{
	const char *text = q->signature + 3;
	size_t n;

	if (q->bad != NULL || !q->has_signature || strlen(q->signature) != SIGN_SIZE - 1 || memcmp(q->signature, "v1_", 3) != 0 ||
	    sodium_base642bin(s->want, sizeof(s->want), text, strlen(text), NULL, &n, NULL, sodium_base64_VARIANT_ORIGINAL_NO_PADDING) < 0 ||
	    n != sizeof(s->want))
		return false;
	s->q = q;
	sign_hash_begin(&s->before, q->path, verb, q->user);
	return true;
}

bool sign_search_fits(const struct sign_search *s, const char *token)
{
	crypto_hash_sha256_state st = s->before;
	uint8_t h[crypto_hash_sha256_BYTES];

	sign_hash_end(&st, token, s->q->has_expiration ? s->q->expiration : NULL, h);
	return sodium_memcmp(h, s->want, sizeof(h)) == 0;
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

/* A word comes from whoever can reach the socket. Its public part is only looked up; the whole is compared as a keyed
 * hash, in constant time, also when nothing was found. */
#include "daemon/key.h"

#include "base/num.h"
#include "base/quote.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

static const struct {
	uint32_t bit;
	const char *word;
} scopes[] = {
#define SCOPE(id, bit, word, text) {1u << (bit), word},
#include "daemon/scopes.def"
#undef SCOPE
};

const char *key_scope_word(uint32_t set, size_t *at)
{
	while (*at < ARRAY_LEN(scopes)) {
		size_t i = (*at)++;

		if ((set & scopes[i].bit) != 0)
			return scopes[i].word;
	}
	return NULL;
}

int key_scopes(const char *words, uint32_t *ret, struct err *e)
{
	char q[QUOTE_MAX];
	uint32_t set = 0;

	for (const char *p = words;; p++) {
		size_t n = strcspn(p, ","), i = 0;

		while (i < ARRAY_LEN(scopes) && (strlen(scopes[i].word) != n || memcmp(scopes[i].word, p, n) != 0))
			i++;
		if (i == ARRAY_LEN(scopes))
			return err_set(e, ERR_INVALID, EINVAL, "unknown scope %s", quote_n(p, n, q));
		set |= scopes[i].bit;
		p += n;
		if (*p == '\0')
			break;
	}
	*ret = set;
	return 0;
}

/* Text that lists can show as it is. */
static bool is_shown(const char *s)
{
	json_t *o = json_string(s);
	bool utf8 = o != NULL;

	json_decref(o);
	for (; *s != '\0'; s++)
		utf8 = utf8 && (unsigned char)*s >= ' ' && *s != 0x7f;
	return utf8;
}

int key_make(struct store *s, const struct seal *seal, const char *tenant, const char *name, uint32_t scope,
	     int64_t now_ms, int64_t expires_ms, char ret[KEY_SIZE], struct err *e)
{
	static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
	struct store_key k = {.scopes = scope, .created_ms = now_ms, .expires_ms = expires_ms};
	uint8_t random[32];
	size_t n = strlen(tenant);

	if (n == 0 || n >= sizeof(k.tenant) || strspn(tenant, set) != n)
		return err_set(e, ERR_INVALID, EINVAL, "a tenant has 1 to 63 letters, digits, '.', '_' or '-'");
	if (strlen(name) >= sizeof(k.name) || !is_shown(name))
		return err_set(e, ERR_INVALID, EINVAL, "the name of a key has at most 63 bytes, of UTF-8 without control characters");
	memcpy(k.tenant, tenant, n + 1);
	memcpy(k.name, name, strlen(name) + 1);
	randombytes_buf(random, sizeof(random));
	memcpy(ret, "e2b_", 4);
	(void)sodium_bin2hex(ret + 4, KEY_SIZE - 4, random, sizeof(random));
	memcpy(k.id, ret + 4, sizeof(k.id) - 1);
	seal_hash(seal, ret, k.hash);
	return store_key_add(s, &k, e);
}

int key_check(struct store *s, const struct seal *seal, const char *word, int64_t now_ms, struct store_key *ret,
	      struct err *e)
{
	char id[STORE_KEY_ID_SIZE] = "";
	uint8_t hash[SEAL_BYTES];
	int r;

	memset(ret, 0, sizeof(*ret));
	if (strlen(word) == KEY_SIZE - 1)
		memcpy(id, word + 4, sizeof(id) - 1);
	seal_hash(seal, word, hash);
	r = store_key_get(s, id, ret, e);
	if (r < 0 && r != -ENOENT)
		return r;
	if (sodium_memcmp(hash, ret->hash, sizeof(hash)) != 0 || r < 0 ||
	    (ret->expires_ms != 0 && ret->expires_ms <= now_ms))
		return -EACCES;
	return 0;
}

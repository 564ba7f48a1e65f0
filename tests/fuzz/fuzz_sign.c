/*
 * Path, user, expiration and token, a line each ("-" = no expiration): a URL signed for them is taken, and none for another verb,
 * token, path, user or expiration; whatever its query looks like, reading it ends.
 */
#include "api/sign.h"

#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put(struct buf *b, const char *name, const char *value)
{
	char hex[4];

	if (buf_put(b, name, strlen(name)) < 0)
		abort();
	for (; *value != '\0'; value++) {
		(void)snprintf(hex, sizeof(hex), "%%%02x", (uint8_t)*value);
		if (buf_put(b, hex, 3) < 0)
			abort();
	}
}

static bool fits(const char *path, const char *user, const char *expiration, const char *signature, const char *verb,
		 const char *token)
{
	static struct sign_query q;
	static struct sign_search all;
	struct buf b = {.max = 1 << 20};
	bool ret;

	put(&b, "/files?path=", path);
	put(&b, "&username=", user);
	put(&b, "&signature=", signature);
	if (expiration != NULL)
		put(&b, "&signature_expiration=", expiration);
	if (buf_put(&b, "", 1) < 0)
		abort();
	sign_read((const char *)buf_head(&b), &q);
	ret = sign_fits(&q, verb, token);
	if ((sign_search_begin(&all, &q, verb) && sign_search_fits(&all, token)) != ret)
		abort();
	(void)sign_over(&q, 1700000000);
	if (ret && (strcmp(q.path, path) != 0 || strcmp(q.user, user) != 0))
		abort();
	buf_done(&b);
	return ret;
}

static void check(const char *path, const char *user, const char *expiration, const char *token)
{
	char s[SIGN_SIZE], other[4096];

	if (sign_make(path, "read", user, token, expiration, s) < 0)
		abort();
	if (!fits(path, user, expiration, s, "read", token))
		abort();
	(void)snprintf(other, sizeof(other), "%sx", token);
	if (fits(path, user, expiration, s, "write", token) || fits(path, user, expiration, s, "read", other) ||
	    fits(path, user, expiration != NULL ? NULL : "1", s, "read", token))
		abort();
	(void)snprintf(other, sizeof(other), "%sx", user);
	if (fits(path, other, expiration, s, "read", token))
		abort();
	(void)snprintf(other, sizeof(other), "%s/", path);
	if (fits(other, user, expiration, s, "read", token))
		abort();
	s[5] ^= 1;
	if (fits(path, user, expiration, s, "read", token))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static struct sign_query q;
	char *text = strndup((const char *)p, n), *rest, *line[4];

	sign_read(text, &q);
	(void)sign_fits(&q, "read", "t");
	(void)sign_over(&q, 1700000000);
	rest = text;
	for (size_t i = 0; i < 4; i++)
		line[i] = strsep(&rest, "\n");
	/* lengths a query may have; a token is the server's: letters and digits */
	if (line[3] != NULL && strlen(line[0]) < 4000 && strlen(line[1]) < 250 && strlen(line[2]) < 24 &&
	    strlen(line[3]) < 200 && strchr(line[3], ':') == NULL)
		check(line[0], line[1], strcmp(line[2], "-") != 0 ? line[2] : NULL, line[3]);
	free(text);
	return 0;
}

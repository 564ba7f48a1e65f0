#include "inspect/priv.h"

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/num.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

/*
 * Writing secrets into header values. A format that begins with "Basic " and has a colon in the rest means credentials:
 * the rest is rendered, then encoded (RFC 7617), since real ones never hold a colon.
 */

static int replace(const char *text, size_t n, const char *what, const char *with, char *out, size_t size)
{
	const char *at = memmem(text, n, what, strlen(what));
	size_t before, w = strlen(with), len = strlen(what);

	if (at == NULL)
		return -ENOENT;
	before = (size_t)(at - text);
	if (n - len + w >= size)
		return -ENOBUFS;
	memcpy(out, text, before);
	memcpy(out + before, with, w);
	memcpy(out + before + w, at + len, n - before - len);
	out[n - len + w] = '\0';
	return 0;
}

static int put_basic(const char *plain, char *out)
{
	_cleanup_free_ char *code = base64_encode(plain, strlen(plain));
	int n;

	if (code == NULL)
		return -ENOBUFS;
	n = snprintf(out, VALUE_MAX, "Basic %s", code);
	explicit_bzero(code, strlen(code));
	return n < VALUE_MAX ? 1 : -ENOBUFS;
}

static int render(const char *format, const char *secret, char *out)
{
	static const char basic[] = "Basic ";
	size_t skip = sizeof(basic) - 1;
	bool code = strncmp(format, basic, skip) == 0 && strchr(format + skip, ':') != NULL;
	char plain[VALUE_MAX];
	int r;

	if (!code)
		return replace(format, strlen(format), "{secret}", secret, out, VALUE_MAX) < 0 ? -ENOBUFS : 1;
	r = replace(format + skip, strlen(format + skip), "{secret}", secret, plain, sizeof(plain));
	if (r == 0)
		r = put_basic(plain, out);
	explicit_bzero(plain, sizeof(plain));
	return r;
}

/* The client's own "Basic ..." with the placeholder inside the code. */
static int in_basic(struct http_text own, const char *mark, const char *secret, char *out)
{
	uint8_t plain[VALUE_MAX];
	char full[VALUE_MAX];
	int n, pad = 0, r;

	if (own.n < 7 || own.n > VALUE_MAX || !http_is((struct http_text){own.p, 6}, "basic ") || (own.n - 6) % 4 != 0)
		return -ENOENT;
	n = EVP_DecodeBlock(plain, (const unsigned char *)own.p + 6, (int)own.n - 6);
	while (pad < 2 && own.p[own.n - 1 - (size_t)pad] == '=')
		pad++;
	if (n <= pad)
		return -ENOENT;
	r = replace((const char *)plain, (size_t)(n - pad), mark, secret, full, sizeof(full));
	if (r == 0)
		r = put_basic(full, out);
	explicit_bzero(full, sizeof(full));
	return r;
}

int inject_value(const struct box *b, const struct judge_inject *i, struct http_text own, char out[VALUE_MAX])
{
	const char *secret = box_secret(b, i->secret);
	int r;

	if (secret == NULL)
		return -ENOENT;
	if (i->strip_client_value || own.p == NULL)
		return render(i->format, secret, out);
	if (i->placeholder == NULL)
		return 0;
	r = replace(own.p, own.n, i->placeholder, secret, out, VALUE_MAX);
	if (r == -ENOENT)
		r = in_basic(own, i->placeholder, secret, out);
	else if (r == 0)
		r = 1;
	return r == -ENOENT ? 0 : r;
}

/*
 * Certificate and key, the operator's files. What is wrong with them is said in words, by `brigd --check-config` too.
 */
#include "api/server_priv.h"

#include "base/cleanup.h"
#include "base/quote.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/x509.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PEM_MAX = 64 * 1024 };

static int read_pem(const char *what, const char *path, char **ret, struct err *e)
{
	_cleanup_free_ char *text = malloc(PEM_MAX);
	char q[QUOTE_MAX];
	ssize_t n;

	if (text == NULL)
		return err_no_memory(e);
	n = file_get(AT_FDCWD, path, text, PEM_MAX);
	if (n < 0)
		return err_set(e, ERR_INVALID, (int)-n, "tls: %s %s: %s", what, quote_bare(path, q), strerror((int)-n));
	*ret = steal_ptr(&text);
	return 0;
}

static int bad(const char *what, const char *path, const char *why, struct err *e)
{
	char q[QUOTE_MAX];

	return err_set(e, ERR_INVALID, EINVAL, "tls: %s %s %s", what, quote_bare(path, q), why);
}

static int damaged(const char *what, const char *path, int code, struct err *e)
{
	char q[QUOTE_MAX];

	return err_set(e, ERR_INVALID, EINVAL, "tls: %s %s is damaged, or of a kind that is not known: %s", what,
		       quote_bare(path, q), gnutls_strerror(code));
}

/* Of a text that is only read. */
static gnutls_datum_t datum(const char *text)
{
	union {
		const char *text;
		unsigned char *data;
	} u = {.text = text};

	return (gnutls_datum_t){u.data, (unsigned)strlen(text)};
}

static int check_key(const char *path, const char *key, struct err *e)
{
	struct stat st;

	if (strstr(key, "-----BEGIN ENCRYPTED") != NULL || strstr(key, "Proc-Type: 4,ENCRYPTED") != NULL)
		return bad("key", path, "has a pass phrase, which nobody is there to type: take it off (openssl pkey)", e);
	if (strstr(key, "PRIVATE KEY-----") == NULL)
		return bad("key", path, "is not a private key in PEM", e);
	if (stat(path, &st) < 0 || (st.st_mode & 07) != 0)
		return bad("key", path, "is open to everybody: chmod o= it", e);
	return 0;
}

/* Whether the texts are what they say, and belong together. */
static int load(const struct config *c, const char *cert, const char *key, gnutls_certificate_credentials_t ret, struct err *e)
{
	const gnutls_datum_t k = datum(key), t = datum(cert);
	gnutls_x509_privkey_t own = NULL;
	gnutls_x509_crt_t *chain = NULL;
	unsigned n = 0;
	int r = gnutls_x509_crt_list_import2(&chain, &n, &t, GNUTLS_X509_FMT_PEM, 0);

	for (unsigned i = 0; r >= 0 && i < n; i++)
		gnutls_x509_crt_deinit(chain[i]);
	if (r >= 0)
		gnutls_free(chain);
	if (r < 0)
		return damaged("cert", c->tls_cert, r, e);
	r = gnutls_x509_privkey_init(&own);
	if (r >= 0)
		r = gnutls_x509_privkey_import2(own, &k, GNUTLS_X509_FMT_PEM, NULL, 0);
	gnutls_x509_privkey_deinit(own);
	if (r < 0)
		return damaged("key", c->tls_key, r, e);
	r = gnutls_certificate_set_x509_key_mem2(ret, &t, &k, GNUTLS_X509_FMT_PEM, NULL, 0);
	if (r == GNUTLS_E_CERTIFICATE_KEY_MISMATCH)
		return bad("key", c->tls_key, "is not the certificate's", e);
	return r < 0 ? damaged("cert", c->tls_cert, r, e) : 0;
}

int tls_open(const struct config *c, gnutls_certificate_credentials_t *ret, struct err *e)
{
	_cleanup_free_ char *key = NULL, *cert = NULL;
	gnutls_certificate_credentials_t made = NULL;
	int r;

	if (c->tls_key == NULL || c->tls_cert == NULL)
		return 0;
	r = read_pem("cert", c->tls_cert, &cert, e);
	if (r == 0)
		r = read_pem("key", c->tls_key, &key, e);
	if (r == 0 && strstr(cert, "-----BEGIN CERTIFICATE-----") == NULL)
		r = bad("cert", c->tls_cert, "is not a certificate in PEM", e);
	if (r == 0)
		r = check_key(c->tls_key, key, e);
	if (r == 0 && gnutls_certificate_allocate_credentials(&made) < 0)
		r = err_no_memory(e);
	if (r == 0)
		r = load(c, cert, key, made, e);
	if (key != NULL)
		explicit_bzero(key, strlen(key));
	if (r < 0) {
		if (made != NULL)
			gnutls_certificate_free_credentials(made);
		return r;
	}
	*ret = made;
	return 0;
}

int api_check(const struct config *c, struct err *e)
{
	gnutls_certificate_credentials_t cred = NULL;
	int r = tls_open(c, &cred, e);

	if (cred != NULL)
		gnutls_certificate_free_credentials(cred);
	return r;
}

/*
 * Certificate and key, the operator's files. What is wrong with them is said in words, by `brigd --check-config` too: a server
 * is started on no socket, since the library that will use them knows best whether they can be used.
 */
#include "api/server_priv.h"

#include "base/cleanup.h"
#include "base/quote.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
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

static enum MHD_Result nobody(void *cls, struct MHD_Connection *conn, const char *url, const char *method, const char *version,
			      /* NOLINTNEXTLINE(readability-non-const-parameter): the library's type */
			      const char *data, size_t *n, void **con_cls)
{
	(void)cls;
	(void)conn;
	(void)url;
	(void)method;
	(void)version;
	(void)data;
	(void)n;
	(void)con_cls;
	return MHD_NO;
}

static void quiet(void *cls, const char *fmt, va_list ap)
{
	(void)cls;
	(void)fmt;
	(void)ap;
}

/* Whether a server starts with them. */
static bool fit(const char *key, const char *cert)
{
	struct MHD_Daemon *m =
	    MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_TLS | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL, nobody, NULL,
			     MHD_OPTION_EXTERNAL_LOGGER, quiet, NULL, MHD_OPTION_HTTPS_MEM_KEY, key, MHD_OPTION_HTTPS_MEM_CERT,
			     cert, MHD_OPTION_END);

	if (m != NULL)
		MHD_stop_daemon(m);
	return m != NULL;
}

int tls_read(const struct config *c, char **ret_key, char **ret_cert, struct err *e)
{
	_cleanup_free_ char *key = NULL, *cert = NULL;
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
	if (r == 0 && !fit(key, cert))
		r = bad("key", c->tls_key, "is not the certificate's, or one of the two is damaged", e);
	if (r < 0)
		return r;
	*ret_key = steal_ptr(&key);
	*ret_cert = steal_ptr(&cert);
	return 0;
}

int api_check(const struct config *c, struct err *e)
{
	_cleanup_free_ char *key = NULL, *cert = NULL;

	return tls_read(c, &key, &cert, e);
}

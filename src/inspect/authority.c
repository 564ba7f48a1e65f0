#include "inspect/authority.h"

#include "base/num.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Keys are ECDSA P-256, made when the sandbox is attached: one for the authority, one for all its certificates, which
 * differ in their names. Neither tickets nor a session cache: every connection of the sandbox shows its name.
 */

enum { LEAVES_MAX = 256, SERIAL_BYTES = 16, AUTHORITY_DAYS = 366, LEAF_DAYS = 30, READ_AHEAD = 64 * 1024, TRUST_BYTES_MAX = 4 << 20 };

struct leaf {
	char name[256];
	X509 *cert;
};
struct authority {
	EVP_PKEY *key, *leaf_key;
	X509 *cert;
	SSL_CTX *server, *client;
	struct leaf leaf[LEAVES_MAX];
	uint32_t leaves;
};

int authority_prepare(void)
{
	uint8_t b[16];

	/* no configuration file, no providers from files, nothing at exit; the random generator gets its seed */
	if (OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT | OPENSSL_INIT_LOAD_SSL_STRINGS |
				 OPENSSL_INIT_LOAD_CRYPTO_STRINGS,
			     NULL) != 1 ||
	    RAND_bytes(b, sizeof(b)) != 1)
		return -ENOMEM;
	return 0;
}

/* ---- certificates ---- */

static int add_ext(X509 *c, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *x;
	int r;

	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, issuer, c, NULL, NULL, 0);
	x = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	r = x != NULL && X509_add_ext(c, x, -1) == 1 ? 0 : -ENOMEM;
	X509_EXTENSION_free(x);
	return r;
}

static int set_serial(X509 *c)
{
	uint8_t b[SERIAL_BYTES];
	BIGNUM *n = NULL;
	int r = -ENOMEM;

	if (RAND_bytes(b, sizeof(b)) != 1)
		return -ENOMEM;
	b[0] = (uint8_t)((b[0] & 0x7f) | 0x40); /* positive, and never short */
	n = BN_bin2bn(b, sizeof(b), NULL);
	if (n != NULL && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(c)) != NULL)
		r = 0;
	BN_free(n);
	return r;
}

static X509 *new_cert(const char *cn, EVP_PKEY *key, long days)
{
	X509 *c = X509_new();
	X509_NAME *name;

	if (c == NULL)
		return NULL;
	name = X509_get_subject_name(c);
	if (X509_set_version(c, X509_VERSION_3) != 1 || set_serial(c) < 0 ||
	    X509_gmtime_adj(X509_getm_notBefore(c), -86400) == NULL ||
	    X509_gmtime_adj(X509_getm_notAfter(c), days * 86400) == NULL || X509_set_pubkey(c, key) != 1 ||
	    X509_NAME_add_entry_by_txt(name, "O", MBSTRING_ASC, (const unsigned char *)"brig", -1, -1, 0) != 1 ||
	    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)cn, -1, -1, 0) != 1) {
		X509_free(c);
		return NULL;
	}
	return c;
}

static int make_root(struct authority *a, const char *sandbox)
{
	char cn[64];

	(void)snprintf(cn, sizeof(cn), "sandbox %s", sandbox);
	a->key = EVP_EC_gen("P-256");
	a->leaf_key = EVP_EC_gen("P-256");
	if (a->key == NULL || a->leaf_key == NULL)
		return -ENOMEM;
	a->cert = new_cert(cn, a->key, AUTHORITY_DAYS);
	if (a->cert == NULL || X509_set_issuer_name(a->cert, X509_get_subject_name(a->cert)) != 1 ||
	    add_ext(a->cert, a->cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") < 0 ||
	    add_ext(a->cert, a->cert, NID_key_usage, "critical,keyCertSign,cRLSign") < 0 ||
	    add_ext(a->cert, a->cert, NID_subject_key_identifier, "hash") < 0 ||
	    add_ext(a->cert, a->cert, NID_authority_key_identifier, "keyid") < 0)
		return -ENOMEM;
	return X509_sign(a->cert, a->key, EVP_sha256()) > 0 ? 0 : -ENOMEM;
}

static X509 *make_leaf(struct authority *a, const char *name)
{
	char san[300], cn[65];
	X509 *c;

	/* X.520 has 64 bytes for it; what counts is the alternative name */
	(void)snprintf(cn, sizeof(cn), "%.64s", name);
	(void)snprintf(san, sizeof(san), "DNS:%s", name);
	c = new_cert(cn, a->leaf_key, LEAF_DAYS);
	if (c != NULL && X509_set_issuer_name(c, X509_get_subject_name(a->cert)) == 1 &&
	    add_ext(c, a->cert, NID_basic_constraints, "critical,CA:FALSE") == 0 &&
	    add_ext(c, a->cert, NID_key_usage, "critical,digitalSignature") == 0 &&
	    add_ext(c, a->cert, NID_ext_key_usage, "serverAuth") == 0 &&
	    add_ext(c, a->cert, NID_subject_key_identifier, "hash") == 0 &&
	    add_ext(c, a->cert, NID_authority_key_identifier, "keyid") == 0 &&
	    add_ext(c, a->cert, NID_subject_alt_name, san) == 0 && X509_sign(c, a->key, EVP_sha256()) > 0)
		return c;
	X509_free(c);
	return NULL;
}

/* Names are the rules' and their wildcards', so there are few; the oldest goes when there are not. */
static X509 *leaf_of(struct authority *a, const char *name)
{
	struct leaf *l;
	X509 *c;

	for (uint32_t i = 0; i < a->leaves; i++)
		if (strcmp(a->leaf[i].name, name) == 0)
			return a->leaf[i].cert;
	c = make_leaf(a, name);
	if (c == NULL)
		return NULL;
	if (a->leaves == LEAVES_MAX) {
		X509_free(a->leaf[0].cert);
		memmove(&a->leaf[0], &a->leaf[1], (LEAVES_MAX - 1) * sizeof(a->leaf[0]));
		a->leaves--;
	}
	l = &a->leaf[a->leaves++];
	(void)snprintf(l->name, sizeof(l->name), "%s", name);
	l->cert = c;
	return c;
}

/* ---- what servers are verified with ---- */

static char *read_all(int fd, size_t *ret_n)
{
	size_t n = 0, cap = 1 << 18;
	char *p = malloc(cap);

	while (p != NULL) {
		ssize_t got;

		if (n == cap) {
			char *grown = cap >= TRUST_BYTES_MAX ? NULL : realloc(p, cap * 2);

			if (grown == NULL)
				break;
			p = grown;
			cap *= 2;
		}
		got = pread(fd, p + n, cap - n, (off_t)n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got == 0) {
			*ret_n = n;
			return p;
		}
		if (got < 0)
			break;
		n += (size_t)got;
	}
	free(p);
	return NULL;
}

static int add_trust(X509_STORE *store, int fd, struct err *e)
{
	size_t n = 0, certs = 0;
	char *text = read_all(fd, &n);
	BIO *b = text != NULL ? BIO_new_mem_buf(text, (int)n) : NULL;
	X509 *c;

	while (b != NULL && (c = PEM_read_bio_X509(b, NULL, NULL, NULL)) != NULL) {
		certs += X509_STORE_add_cert(store, c) == 1 ? 1 : 0;
		X509_free(c);
	}
	BIO_free(b);
	free(text);
	return certs > 0 ? 0 : err_set(e, ERR_INVALID, EINVAL, "a file of trusted certificates holds none");
}

/* ---- the two ends ---- */

static int only_http1(SSL *s, const unsigned char **out, unsigned char *out_n, const unsigned char *in, unsigned int in_n,
		      void *arg)
{
	static const unsigned char http1[] = "\x08http/1.1\x08http/1.0";
	unsigned char *chosen = NULL;

	(void)s;
	(void)arg;
	if (SSL_select_next_proto(&chosen, out_n, http1, sizeof(http1) - 1, in, in_n) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

static int common(SSL_CTX *c)
{
	if (c == NULL || SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION) != 1)
		return -ENOMEM;
	(void)SSL_CTX_set_options(c, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	(void)SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				      SSL_MODE_RELEASE_BUFFERS);
	(void)SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_read_ahead(c, 1); /* else each record is read by two calls */
	SSL_CTX_set_default_read_buffer_len(c, READ_AHEAD);
	return 0;
}

static int make_ends(struct authority *a, const int *trust_fd, size_t n, struct err *e)
{
	a->server = SSL_CTX_new(TLS_server_method());
	a->client = SSL_CTX_new(TLS_client_method());
	if (common(a->server) < 0 || common(a->client) < 0 || SSL_CTX_set_num_tickets(a->server, 0) != 1)
		return err_no_memory(e);
	SSL_CTX_set_alpn_select_cb(a->server, only_http1, NULL);
	SSL_CTX_set_verify(a->client, SSL_VERIFY_PEER, NULL);
	for (size_t i = 0; i < n; i++) {
		int r = add_trust(SSL_CTX_get_cert_store(a->client), trust_fd[i], e);

		if (r < 0)
			return r;
	}
	return 0;
}

int authority_new(const char *sandbox, const int *trust_fd, size_t n, struct authority **ret, struct err *e)
{
	struct authority *a = calloc(1, sizeof(*a));
	int r;

	if (a == NULL || make_root(a, sandbox) < 0)
		r = err_set(e, ERR_INTERNAL, ENOMEM, "making the sandbox's certificate authority failed");
	else
		r = make_ends(a, trust_fd, n, e);
	if (r < 0) {
		authority_free(a);
		return r;
	}
	*ret = a;
	return 0;
}

void authority_free(struct authority *a)
{
	if (a == NULL)
		return;
	for (uint32_t i = 0; i < a->leaves; i++)
		X509_free(a->leaf[i].cert);
	X509_free(a->cert);
	EVP_PKEY_free(a->key);
	EVP_PKEY_free(a->leaf_key);
	SSL_CTX_free(a->server);
	SSL_CTX_free(a->client);
	free(a);
}

int authority_pem(const struct authority *a, char *out, size_t size)
{
	BIO *b = BIO_new(BIO_s_mem());
	char *p = NULL;
	long n = 0;
	int r = -ENOBUFS;

	if (b != NULL && PEM_write_bio_X509(b, a->cert) == 1)
		n = BIO_get_mem_data(b, &p);
	if (n > 0 && (size_t)n <= size) {
		memcpy(out, p, (size_t)n);
		r = (int)n;
	}
	BIO_free(b);
	return r;
}

SSL *authority_server(struct authority *a, const char *name)
{
	X509 *leaf = leaf_of(a, name);
	SSL *s = leaf != NULL ? SSL_new(a->server) : NULL;

	if (s == NULL || SSL_use_certificate(s, leaf) != 1 || SSL_use_PrivateKey(s, a->leaf_key) != 1) {
		SSL_free(s);
		return NULL;
	}
	SSL_set_accept_state(s);
	return s;
}

SSL *authority_client(struct authority *a, const char *name)
{
	static const unsigned char http1[] = "\x08http/1.1";
	SSL *s = SSL_new(a->client);
	char host[256]; /* the library's macro wants it writable, and copies it */

	(void)snprintf(host, sizeof(host), "%s", name);
	if (s == NULL || SSL_set_tlsext_host_name(s, host) != 1 || SSL_set1_host(s, name) != 1 ||
	    SSL_set_alpn_protos(s, http1, sizeof(http1) - 1) != 0) {
		SSL_free(s);
		return NULL;
	}
	SSL_set_hostflags(s, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	SSL_set_connect_state(s);
	return s;
}

#pragma once
/*
 * TLS on both sides of the worker: a certificate authority of one sandbox's own, whose key never leaves this process, with a
 * certificate for one name at a time; and the verification of servers. OpenSSL. Names are canonical.
 */
#include "base/err.h"

#include <openssl/ssl.h>
#include <stddef.h>

struct authority;

/* Prepare the library: before the jail is entered. 0 or -ENOMEM. */
int must_check authority_prepare(void);
/* trust_fd: files of certificates (PEM) that servers are verified with; read here, from their beginning. */
int must_check authority_new(const char *sandbox, const int *trust_fd, size_t n, struct authority **ret, struct err *e);
void authority_free(struct authority *a);
/* The authority's certificate as PEM: its size, or -ENOBUFS. */
int must_check authority_pem(const struct authority *a, char *out, size_t size);
/* The end towards the sandbox, as the server `name`; only HTTP/1.1 is agreed on. NULL = no memory. */
SSL *authority_server(struct authority *a, const char *name);
/* The end towards the server `name`: fails its handshake unless the server's certificate is good for it. NULL = no memory. */
SSL *authority_client(struct authority *a, const char *name);

#pragma once
/*
 * TLS in front of the HTTP server (GnuTLS): connections are accepted and shaken hands with here, in the daemon's loop, and what
 * they say in plain goes to the server over a socket pair, which it takes for a client without TLS. libmicrohttpd can do TLS
 * itself, but moves the bytes of a client that has switched protocols through whatever its head left of the connection's memory:
 * four bytes at a time.
 */
#include "base/err.h"
#include "sys/loop.h"

#include <gnutls/gnutls.h>
#include <sys/socket.h>

struct tls_front;

/* A client's plain end, and its address. Takes fd: it is closed where it cannot be served. */
typedef void tls_take_fn(void *cls, int fd, const struct sockaddr *addr, socklen_t addr_n);

struct tls_setup {
	gnutls_certificate_credentials_t cred; /* taken */
	unsigned connections;                  /* at once; others wait in the listening socket */
	unsigned seconds; /* for the handshake; and for each part of what is left when the server has ended a connection */
	tls_take_fn *take;
	void *cls;
};

/* listen_fd is taken, and it and s->cred are gone on failure too. The loop is borrowed. */
int must_check tls_front_open(struct loop *l, int listen_fd, const struct tls_setup *s, struct tls_front **ret, struct err *e);
/* Go on where no event will tell. Milliseconds until there is more to do by the clock, 0 = at once, -1 = never. Accepts NULL. */
int tls_front_turn(struct tls_front *f);
/* Connections on which something the server has said waits to be sent. Accepts NULL. */
uint32_t tls_front_busy(const struct tls_front *f);
/* No new connections: who has not shaken hands is let go. Accepts NULL. */
void tls_front_quiesce(struct tls_front *f);
/* When the server has closed its ends. What clients take at once is sent. Accepts NULL. */
void tls_front_close(struct tls_front *f);

#pragma once
/* One connection with TLS (tls_conn.c), and where it stands among the others (tls_front.c). */
#include "api/tls_front.h"
#include "base/buf.h"

enum tls_list {
	TLS_ALL,
	TLS_TIMED, /* have a deadline, the next one first */
	TLS_AGAIN, /* have something left that no event will announce */
	TLS_LISTS
};

struct tls_conn {
	struct source net; /* the client's socket */
	struct tls_inner {
		struct source src; /* our end of the pair; fd -1 before the handshake is done */
		struct tls_conn *c;
	} in;
	struct tls_front *f;
	gnutls_session_t session;
	struct buf up, down; /* plain text on its way in and out; without memory while there is none */
	struct {
		struct tls_conn *next, *prev;
	} link[TLS_LISTS];
	unsigned listed;   /* bits by enum tls_list */
	uint64_t until_ms; /* of TLS_TIMED */
	bool waits;        /* the last call of GnuTLS met a socket that had nothing, or took nothing */
	bool cut;          /* the client's socket is at its end, said or not */
	bool client_ended, told; /* it says no more; the server knows */
	bool server_ended, said; /* the same, the other way round */
	bool deaf;         /* the server has closed its end */
	bool writes;       /* in.src is watched for room */
};

struct tls_front {
	struct source listener; /* fd -1 = no more */
	struct loop *loop;
	struct tls_setup s;
	gnutls_priority_t priority;
	struct {
		struct tls_conn *first, *last;
	} lists[TLS_LISTS];
	unsigned n;          /* connections */
	bool full, more;     /* some wait for a place; perhaps there are some to accept */
	uint64_t retry_ms;   /* when to accept again what could not be, 0 = nothing */
};

/* ---- tls_conn.c ---- */
/* Takes fd, closed where there is no memory. */
void tls_conn_new(struct tls_front *f, int fd);
/* Do what can be done now; it may end. */
void tls_conn_step(struct tls_conn *c);
void tls_conn_end(struct tls_conn *c);

/* ---- tls_front.c ---- */
/* Append it, or move it to the end. */
void tls_list_put(struct tls_conn *c, enum tls_list l);
void tls_list_take(struct tls_conn *c, enum tls_list l);
/* Its deadline is tls_setup.seconds from now. */
void tls_deadline(struct tls_conn *c);
/* One that ended is counted out. */
void tls_left(struct tls_conn *c);

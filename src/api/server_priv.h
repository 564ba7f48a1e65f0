#pragma once
/* What the server's files share. */
#include "api/request.h"
#include "api/tls_front.h"

struct api {
	struct source events; /* MHD's epoll descriptor, not ours to close */
	struct daemon *d;
	struct MHD_Daemon *mhd;
	struct tls_front *tls; /* accepts in MHD's place; NULL = MHD does */
	uint16_t port;
	uint32_t requests, most; /* now; since memory was last given back */
	struct request *suspended;
	struct request *begun; /* in this turn, and passed on in it */
	struct tunnel *tunnels; /* see tunnel.c */
	unsigned connections; /* at once */
};

/* MHD's reader of the answer's body: what the keeper sends. */
ssize_t answer_read(void *cls, uint64_t pos, char *dst, size_t n);

/* ---- suspend.c ---- */
/* MHD does nothing for it until request_wake. */
void request_suspend(struct request *q);
/* Stop watching the client's socket beside MHD. */
void request_unwatch(struct request *q);
/* It is not in the list of suspended ones any more; whether it was. */
bool request_unlist(struct request *q);
/* All of them, as if their clients had gone. */
void request_wake_all(struct api *a);

/* ---- begun.c ---- */
/* What is known of it by the end of this turn, all of a short request as a rule, goes to the keeper in one write. */
void begun_add(struct request *q);
void begun_drop(struct request *q);
/* The turn ends. */
void begun_send(struct api *a);

/* ---- server.c ---- */
void server_events(struct source *s, uint32_t events);

/* Go on where no event will tell; whether some of that is left. */
bool tunnel_turn(struct api *a);
/* MHD wants none left when it stops. */
void tunnel_end_all(struct api *a);

/* ---- listen.c ---- */
/* "ADDRESS:PORT", "[ADDRESS]:PORT" or "unix:/PATH". *ret_port 0 for the last. */
int must_check listen_open(const char *where, int *ret_fd, uint16_t *ret_port, struct err *e);
/* How many connections the limit of descriptors leaves room for; it is raised to its maximum first. */
unsigned listen_connections(bool tls);

/* ---- framing.c ---- */
/* Why nobody can say for sure where the request ends, or whom it is for; NULL = it is clear. *ret_endless: its body, of a coding
 * nobody knows, would be taken for the next request: close. */
const char *framing_fault(struct MHD_Connection *conn, const char *version, bool *ret_endless);

/* ---- tls.c ---- */
/* The configuration's certificate and key, found to be usable; owned by the caller. *ret is left alone without TLS. */
int must_check tls_open(const struct config *c, gnutls_certificate_credentials_t *ret, struct err *e);

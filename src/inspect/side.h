#pragma once
/*
 * One end of an inspected connection: a connected socket, in the clear or with TLS on it. What it says is hostile; how
 * much of it is kept is bounded: `in` and `out` never hold more than SIDE_ROOM, and what finds no room is left
 * in the socket, where TCP stops the sender.
 */
#include "base/buf.h"
#include "sys/loop.h"

#include <openssl/ssl.h>

enum { SIDE_ROOM = 96 * 1024, SIDE_READ = 16 * 1024, SIDE_OUT_FULL = 64 * 1024 };

struct side {
	struct source src;       /* fd -1 = not there */
	SSL *tls;                /* NULL = in the clear */
	bool readable, writable; /* by events; cleared by EAGAIN */
	bool shaken;             /* the handshake is through, or there is none */
	bool ended;              /* it ended its half in order */
	bool broken;             /* nothing more comes or goes */
	bool shut;               /* we ended ours */
	bool cert_bad;           /* its certificate was refused */
	struct buf early;        /* read from the socket before TLS was there to read it */
	struct buf in, out;
	uint64_t got, put;       /* bytes of content */
};

void side_init(struct side *s);
/* A connected, non-blocking socket. Owned from here on. */
void side_open(struct side *s, int fd);
/* TLS from here on, which reads `early` first. Owned in any case. 0 or -ENOMEM. */
int must_check side_tls(struct side *s, SSL *tls);
void side_close(struct side *s, bool hard);
/* The handshake: 1 = through, 0 = it waits, -EPROTO = failed. */
int must_check side_shake(struct side *s);
/* Read raw bytes into `early`, no more than max in all: bytes, 0 = none now or ended or broken. */
size_t side_early(struct side *s, size_t max);
/* Read what there is and `in` has room for: bytes, 0 = none now. */
size_t side_fill(struct side *s);
/* Write what `out` holds. True when something went. */
bool side_flush(struct side *s);
/* End our half, once, when all is out. */
void side_shut(struct side *s);

#pragma once
/*
 * One HTTP request on its way from brigd to the keeper of a sandbox, and its answer back: a
 * connection of a unix stream socket for each, closed when both have ended. Each side treats the
 * other as hostile.
 *
 * Pieces {u8 kind, u8 zero, u16 zero, u32 length, bytes}, numbers little-endian:
 *   to the keeper   REQUEST, any number of BODY, END
 *   to brigd        RESPONSE, any number of BODY, END
 * END says that the body is whole. A connection that ends without it was cut: brigd then cuts the
 * client's connection too, and a keeper ends what it did for the client (a process started by it
 * lives on). Flow control is the socket's. The answer may begin before the request's body has
 * ended, and end it early.
 *
 * A head is a list of strings, each with its NUL: of a request the method, the target (as a client
 * would write it: path and query, percent-encoded), then names and values of fields; of a response
 * the status (three digits), then the fields. Names are in lower case.
 */
#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CALL_HEADER = 8, CALL_PIECE_MAX = 64 * 1024, CALL_FIELDS_MAX = 100 };

enum call_kind { CALL_REQUEST = 1, CALL_RESPONSE = 2, CALL_BODY = 3, CALL_END = 4 };

struct call_piece {
	enum call_kind kind;
	const uint8_t *p; /* borrowed */
	uint32_t n;
};
/* The first piece of p[0..n): its size in bytes, 0 = more is needed, -EPROTO. */
int call_next(const void *p, size_t n, struct call_piece *ret);

struct call_field {
	const char *name, *value;
};
/* A head taken apart; every string points into the piece and ends with NUL. */
struct call_head {
	const char *method, *target; /* REQUEST */
	unsigned status;	     /* RESPONSE: 100..599 */
	uint32_t fields_n;
	struct call_field field[CALL_FIELDS_MAX];
};
/* 0, -EPROTO for a head that is malformed: control characters, an empty or upper-case name, a
 * target without '/'. */
int must_check call_head(const struct call_piece *c, struct call_head *ret);
/* The value of the first field of this name (lower case), NULL = there is none. */
const char *call_find(const struct call_head *h, const char *name);

/* Append a piece. 0, -EMSGSIZE over CALL_PIECE_MAX, -ENOBUFS, -ENOMEM. */
int must_check call_put(struct buf *b, enum call_kind kind, const void *p, size_t n);
/* Append the head of a request or response. As call_put; -EINVAL for a string call_head would
 * refuse. */
int must_check call_put_request(struct buf *b, const char *method, const char *target,
				const struct call_field *f, uint32_t n);
int must_check call_put_response(struct buf *b, unsigned status, const struct call_field *f,
				 uint32_t n);

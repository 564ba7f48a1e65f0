#pragma once
/* The two lines of a receipt file: what is around the payload (envelope.c). */
#include "receipt/receipt.h"

struct receipt_parts {
	uint8_t pub[RECEIPT_PUB], sig[RECEIPT_SIG];
	const char *payload; /* borrowed, not ended */
	size_t n;
};
/* Take a file apart; nothing is verified yet. */
int must_check receipt_split(const void *p, size_t n, struct receipt_parts *ret, struct err *e);
/* Leave room for the first line, which receipt_seal writes. 0, -ENOMEM. */
int must_check receipt_room(struct buf *file);
/* Read 2 * bytes lower-case hex digits; false when one of them is none. */
bool receipt_unhex(const char *s, size_t bytes, uint8_t *ret);
/* Is the signature that of pub? */
bool receipt_signed_by(const struct receipt_parts *r, const uint8_t pub[RECEIPT_PUB]);

#pragma once
/*
 * Flow control of one channel, as plain numbers. A sender may send while its credit lasts; the
 * receiver grants more by CREDIT frames as it gets rid of bytes.
 */
#include "base/err.h"

#include <stdint.h>

/* Sending: add n bytes that the peer granted. 0, -EPROTO when the sum passes FRAME_CREDIT_MAX. */
int must_check credit_add(uint32_t *credit, uint32_t n);

/* Receiving: what the peer may still send, and what was consumed but not granted again yet. */
struct window {
	uint32_t left; /* bytes */
	uint32_t owed; /* bytes */
};
void window_init(struct window *w); /* FRAME_WINDOW bytes are granted */
/* n bytes arrived. 0, -EPROTO when the peer sent more than it was granted. */
int must_check window_take(struct window *w, uint32_t n);
/* n bytes that had arrived are done with. Returns how much to grant now, 0 = nothing yet: small
 * grants are saved up, which cannot starve the peer: what is saved is less than a quarter. */
uint32_t window_give(struct window *w, uint32_t n);

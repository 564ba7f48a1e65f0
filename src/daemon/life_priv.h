#pragma once
/* What the operations on sandboxes share. */
#include "daemon/daemon.h"

/* An operation under way. It names its sandbox by id, since that may end meanwhile. */
struct life_op {
	struct life_op *next;
	struct daemon *d;
	char id[BOX_ID_SIZE];
	life_done_fn *done; /* NULL = nobody waits */
	void *owner;
	uint64_t timeout_ms;
	uint64_t begun_us; /* create */
	json_t *claim;     /* create: what the keeper is told; owned */
	bool warm;
};

enum { LIFE_CALL_MS = 10000, LIFE_PAUSE_GRACE_MS = 30000 };

/* NULL = out of memory: done was called with 500. */
struct life_op *life_op_new(struct daemon *d, const char *id, life_done_fn *done, void *owner);
/* Tell who waits, and free it. b may be NULL. */
void life_op_end(struct life_op *op, unsigned status, const char *why);
/* A call to the keeper of op's sandbox; on failure the operation is ended with 502. */
void life_call(struct life_op *op, const char *target, const json_t *body, ask_done_fn *done);
/* The words of a keeper's error. Borrowed from answer, or constant. */
const char *life_words(const json_t *answer, const char *otherwise);
/* Milliseconds the keeper is told for a life that ends in timeout_ms: one that is paused then needs a moment more. */
uint64_t life_deadline(const struct box *b, uint64_t timeout_ms);

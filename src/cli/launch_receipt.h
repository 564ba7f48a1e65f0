#pragma once
/*
 * The receipt of one launch: asks the agent to measure the walls before anything else is sent,
 * compares, writes the signed file, and refuses the start when something is not as asked for.
 */
#include "core/spec.h"
#include "session/session.h"
#include "spawn/runner.h"

struct launch_receipt; /* opaque */

/* Open the file that will be path's. */
int must_check launch_receipt_new(const char *path, struct launch_receipt **ret, struct err *e);
void launch_receipt_free(
    struct launch_receipt *r); /* accepts NULL; what was not finished leaves no file */

/* ---- for launch.c ---- */
/* Send the request, and load the signing key while the agent starts. spec is borrowed for the call.
 */
int must_check launch_receipt_ask(struct launch_receipt *r, struct session *s,
				  const struct spec *spec, struct err *e);
/* Has the answer come? */
bool launch_receipt_answered(const struct launch_receipt *r);
/* Compare and write. Says each difference; 0 when there is none and the receipt is written. */
int must_check launch_receipt_settle(struct launch_receipt *r, const struct runner *runner,
				     const struct spec *spec, char *const *argv, struct err *e);

/* This machine's key: made when it is missing. */
int must_check launch_receipt_key(uint8_t pub[32], struct err *e);

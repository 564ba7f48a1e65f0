#pragma once
/*
 * The receipt of one launch: has the command's process measure the walls before it runs anything,
 * compares, lets it go on or not, and writes the signed file, while the command runs if it may.
 */
#include "core/spec.h"
#include "spawn/runner.h"
#include "wire/probe_expect.h"
#include "wire/request.h"

struct launch_receipt; /* opaque */

int must_check launch_receipt_new(const char *path, struct launch_receipt **ret, struct err *e);
/* What was not finished leaves no file. leaving: the process ends next, memory stays. Accepts NULL. */
void launch_receipt_free(struct launch_receipt *r, bool leaving);

/* ---- for launch.c, in this order ---- */
/* While the agent starts: the file, the key's, what the host knows. Borrowed until the end. */
int must_check launch_receipt_prepare(struct launch_receipt *r, const struct runner *runner,
				      const struct spec *spec, char *const *argv, struct err *e);
/* Descriptors to send with the EXEC request, after all others. far[0..2) are the caller's to close. */
int must_check launch_receipt_open(struct launch_receipt *r, int far[2], struct err *e);
/* Its field EXPECT. */
const struct probe_expect *launch_receipt_expect(const struct launch_receipt *r);
/* Where the report comes; -1 before and after. */
int launch_receipt_fd(const struct launch_receipt *r);
/* There is something: 1, the walls are as asked for, and the command runs; 0, that is not known yet, or, when
 * launch_receipt_fd is -1, will never be (the request's result says why); else a fault, and each difference was
 * said. */
int must_check launch_receipt_hear(struct launch_receipt *r, struct err *e);
/* Write the file. */
int must_check launch_receipt_write(struct launch_receipt *r, struct err *e);
/* The file it took the place of, -1 = none. To be closed when nobody waits: its blocks are freed then. */
int launch_receipt_replaced_fd(const struct launch_receipt *r); /* accepts NULL */
/* Wait until it, should it have been written, is on the disk. */
int must_check launch_receipt_sync(struct launch_receipt *r, struct err *e);

/* This machine's key. make: when it is missing, make it. */
int must_check launch_receipt_key(bool make, uint8_t pub[32], struct err *e);

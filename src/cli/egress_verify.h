#pragma once
/*
 * Whether a file of decision records (--egress-log) holds all of them as they were written, by the chain that leads from one
 * to the next. Several sandboxes may have written to it, each has a chain of its own.
 */
#include "base/err.h"

#include <stdint.h>

struct egress_chain {
	char *id;         /* lifecycle_id, owned */
	uint64_t records; /* so far; the next one's seq */
	uint64_t lost;    /* what its gate says it could not keep */
	char head[65];    /* SHA-256 of its last line, in hex */
};
struct egress_chains {
	struct egress_chain *v;
	uint32_t n;
};

/*
 * Read the file to its end. -EBADMSG with the number of the first line that does not follow from those before it; other errors
 * as errno. What is behind the last line of a chain cannot be seen from it: that its head is the one the run told
 * (`brig run --json`) says that nothing was cut off.
 */
int must_check egress_verify(const char *path, struct egress_chains *ret, struct err *e);
void egress_chains_done(struct egress_chains *c);
/* SHA-256 of a line without its end, in hex. */
void egress_line_hash(const char *p, size_t n, char out[65]);

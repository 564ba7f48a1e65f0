#pragma once
/*
 * The decision records of one sandbox's gate (JSON lines): appended to a file, and what was refused is
 * kept for the summary, equal attempts once with their number.
 */
#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

enum { EGRESS_SEEN_MAX = 64, EGRESS_LINE_MAX = 8192 };

struct egress_seen {
	char *where;  /* name, or address with port; owned, printable */
	char reason[24], event[12], transport[8];
	uint64_t times;
};
struct egress_log {
	int file_fd; /* --egress-log; borrowed, -1 = none */
	int file_error; /* errno of the first failed write */
	struct buf line;
	uint64_t denied, allowed; /* decisions */
	uint64_t records, lost;   /* lines; what the gate says it could not keep */
	char head[65];            /* SHA-256 of the last one, see egress_verify.h */
	char alert[160];          /* what the rules say the caller is to be told at once; "" = nothing new */
	uint32_t n;
	struct egress_seen seen[EGRESS_SEEN_MAX];
};

void egress_log_init(struct egress_log *l, int file_fd);
void egress_log_done(struct egress_log *l);
/* Take in what the descriptor holds. False at its end. */
bool egress_log_read(struct egress_log *l, int fd);
/* Read on to the end, at most for ms. */
void egress_log_drain(struct egress_log *l, int fd, int ms);

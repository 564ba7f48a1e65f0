#pragma once
/*
 * The records of one sandbox on their way out: lines in a pipe that somebody else empties. Their number counts what was
 * written, and each names the hash of the one before, so that whoever has them all can tell that nothing was changed,
 * taken out or put elsewhere.
 */
#include "gate/judge.h"
#include "sys/loop.h"

struct records {
	struct source pipe; /* its write end; fd -1 = none. `ready` is the owner's: there is room again */
	uint64_t seq, lost;
	char prev_hash[65]; /* of the last line, or, as long as that is in `line`, of the one before */
	struct buf line;    /* not hashed yet */
	bool broken; /* nobody will ever empty it */
};

void records_init(struct records *s, void (*ready)(struct source *s, uint32_t events));
void records_done(struct records *s); /* the pipe's end too */
/* Hash the last line, which nobody needs before the next one: when there is time. */
void records_settle(struct records *s);
static inline bool records_unsettled(const struct records *s) { return s->line.len > 0; }
/* Write one now. False: there is no room, and it was not written. Never blocks. */
bool must_check records_write(struct records *s, const struct judge *j, const struct judge_record *r,
			      const struct judge_who *who);

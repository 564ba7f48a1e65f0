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
	char prev_hash[65];
	bool broken; /* nobody will ever empty it */
};

/* Write one now. False: there is no room, and it was not written. Never blocks. */
bool must_check records_write(struct records *s, const struct judge *j, const struct judge_record *r,
			      const struct judge_who *who);

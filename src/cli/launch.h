#pragma once
/*
 * One sandbox from start to end for one command: copy in, run with its standard streams, copy out.
 * Blocks until everything of the sandbox is gone. Used by `brig run`, and a second time for
 * --out-patch.
 */
#include "cli/inlet.h"
#include "cli/egress_log.h"
#include "cli/launch_files.h"
#include "cli/launch_receipt.h"
#include "cmd/outlet.h"
#include "core/spec.h"
#include "session/session.h"
#include "spawn/runner.h"

struct launch {
	/* Set before launch_run; borrowed. */
	const struct spec *spec;
	char *const *argv;           /* NULL-terminated; argv[0] not NULL */
	const struct strv *secrets;  /* more NAME=VALUE, never shown; may be NULL */
	bool tty;                    /* a terminal: standard input must be one */
	bool interactive;            /* forward standard input */
	bool exact;                  /* return only when all is removed, with every account read */
	bool alerts;                 /* say at once on stderr what the rules say must be told at once */
	bool progress;               /* show on stderr how far long copies are */
	bool leaving;                /* the caller exits next: nothing is freed, descriptors stay open */
	bool framed;                 /* stdio through the agent's stream instead of pipes */
	struct outlet out[2];        /* stdout, stderr; initialised by the caller, who also ends them */
	struct egress_log *egress;   /* takes the gate's records; not NULL when spec->egress is not */
	struct launch_files *files;  /* what to copy; may be NULL */
	struct launch_receipt *receipt; /* measure the walls first, and write that down; NULL = do not */

	/* Filled in by launch_run. */
	bool have_result;            /* the command ended, or could not be run: see `result` */
	struct stream_result result;
	struct runner_end end;
	uint32_t weaker;             /* enum runner_weaker: what did not hold */
	int stopped_by;              /* signal that made brig end the sandbox, 0 = none */
	struct err copy_fault;       /* copying out failed; the result above counts all the same */
	bool lost;                   /* the sandbox went away without a result and without a reason */
};

/* 0 when the sandbox came up and ended (see the fields above); else a fault with nothing left. */
int must_check launch_run(struct launch *l, struct err *e);

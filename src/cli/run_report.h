#pragma once
/* How a run ended: its exit code, the words for people, the JSON object for programs. */
#include "cli/launch.h"
#include "cli/run_args.h"

struct run_outcome {
	const struct run_args *args;
	const struct launch *launch; /* NULL when nothing was started */
	struct err fault;            /* brig's own trouble; kind NONE = none */
	bool timed_out, oom, lost;
	int exit;                    /* of the command; -1 = none */
	int signal;                  /* that ended the command; 0 = none */
	int code;                    /* of brig */
};

/* The short name of one bit of enum runner_weaker. */
const char *outcome_wall_name(uint32_t bit);
/* Fill in everything but args, launch and fault from those three. */
void outcome_decide(struct run_outcome *o);
/* One line on stderr for whatever a person should know. */
void outcome_say(const struct run_outcome *o);
/* Write the JSON object to fd, with the captured output when with_output. 0, -errno. */
int must_check outcome_json(const struct run_outcome *o, bool with_output, int fd);

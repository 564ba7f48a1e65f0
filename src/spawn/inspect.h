#pragma once
/*
 * The process that reads HTTP (src/inspect) as its starter sees it. One is there when a rule of the sandbox is about HTTP; it
 * works with the gate over a pair of sockets. It ends when its control socket does; its death closes all it held.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct inspect {
	pid_t pid;      /* our child, -1 = none */
	int ctl_fd;     /* control socket: its end is the process's; -1 = none */
	int peer_fd;    /* the gate's end of the pair: for gate_rules, then closed by inspect_trust */
	char sandbox[36];
	char *trust;    /* certificates (PEM) for the sandbox's trust store: the host's and its own; NULL = no rule ends TLS. Owned */
};

void inspect_init(struct inspect *i);
struct judge;
/* Start it if the rules need it, and tell it rules and secrets; else *i stays as initialised. j: the same rules, read. */
int must_check inspect_start(struct inspect *i, const char *sandbox, const struct judge *j, const char *rules, size_t n,
			     struct err *e);
/* Wait until it has taken them: trust is there then. Does nothing when there is no process. */
int must_check inspect_trust(struct inspect *i, struct err *e);
/* Other rules, with their secrets read again; waits for the answer. On failure the old ones go on. */
int must_check inspect_policy(struct inspect *i, const char *rules, size_t n, struct err *e);
/* Whether what made ctl_fd readable was its end. */
bool inspect_lost(struct inspect *i);
/* End it without waiting: for a caller that exits now. */
void inspect_leave(struct inspect *i);
/* End and reap it. Accepts an initialised one. */
void inspect_done(struct inspect *i);

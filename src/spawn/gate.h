#pragma once
/*
 * The gate's process (src/relay) as its starter sees it: started, given sandboxes, watched. It ends when the
 * control socket does. Its death closes all sockets it was given: connections are reset and nothing can
 * be reached any more.
 */
#include "base/err.h"
#include "net/net.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct gate {
	pid_t pid;   /* our child, -1 = none */
	int ctl_fd;  /* control socket: polls readable when gate_hear has something */
	int rec_fd;  /* read end of the decision records: JSON lines; non-blocking */
	int prog_fd; /* the program, found and not started yet; else -1 */
	char sandbox[36];
	char secret_ref[264]; /* of the proxy's credentials that it has; "" = none */
};

/* Whose gate it is, as records say it. task: NULL = the caller has no word for it. */
struct gate_who {
	const char *sandbox, *tier, *task;
};

void gate_init(struct gate *g);
/* Find the program, beside our own, without starting it. */
int must_check gate_find(struct gate *g, struct err *e);
/* Start it; it is found first, if it was not. It locks itself in while its caller goes on. */
int must_check gate_start(struct gate *g, struct err *e);
/* These rules have the gate use credentials, which gate_rules reads: its caller may want to know at once whether they are there. */
bool gate_reads_secret(const char *rules, size_t n);
/*
 * Tell it, once, the rules of the sandbox that will be: it reads them while the sandbox is made. peer_fd: its end of the pair with the
 * process that reads HTTP (wire/inspect.h), which stays the caller's; -1 = there is no such process.
 */
int must_check gate_rules(struct gate *g, const struct gate_who *who, const char *rules, size_t n, int peer_fd,
			  struct err *e);
/* The sandbox is there: hand its sockets over (they are closed here in any case), once the gate has taken the rules. */
int must_check gate_give(struct gate *g, struct net_socks *socks, struct err *e);
/* The same without waiting for it to take the rules: that it does not is heard later. */
int must_check gate_send(struct gate *g, struct net_socks *socks, struct err *e);
/* Other rules from now on; the answer is heard later, in the order asked. */
int must_check gate_policy(struct gate *g, const char *rules, size_t n, struct err *e);
enum gate_heard {
	GATE_NOTHING,
	GATE_WANTS_KILL,
	GATE_ENDED,
	GATE_LOST, /* it died, or does not serve the sandbox */
	GATE_TOOK_RULES,
	GATE_KEPT_RULES, /* the old ones */
};
/* Take in what it said, without blocking. why: for WANTS_KILL and KEPT_RULES, its words. */
enum gate_heard gate_hear(struct gate *g, char *why, size_t size);
/* Have it close everything of the sandbox and write the last records; rec_fd ends then. Does not wait. */
void gate_detach(struct gate *g);
/* End it without waiting: for a caller that exits now. */
void gate_leave(struct gate *g);
/* End and reap it. Accepts an initialised one. */
void gate_done(struct gate *g);

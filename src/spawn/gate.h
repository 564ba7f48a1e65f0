#pragma once
/*
 * The gate's process (src/relay) as its starter sees it: started, given sandboxes, watched. It ends when the
 * control socket does. Its death closes all sockets it was given: connections are reset and nothing can
 * be reached any more.
 */
#include "base/err.h"
#include "net/net.h"

#include <stddef.h>
#include <sys/types.h>

struct gate {
	pid_t pid;   /* our child, -1 = none */
	int ctl_fd;  /* control socket: polls readable when gate_hear has something */
	int rec_fd;  /* read end of the decision records: JSON lines; non-blocking */
	char sandbox[36];
};

void gate_init(struct gate *g);
/* Start the program, found beside our own. It locks itself in meanwhile. */
int must_check gate_start(struct gate *g, struct err *e);
/*
 * Hand a sandbox over: its sockets (which are closed here in any case) and rules as text. Waits until the gate has
 * taken or refused them.
 */
int must_check gate_attach(struct gate *g, const char *sandbox, const char *tier, const char *rules, size_t n,
			   struct net_socks *socks, struct err *e);
enum gate_heard { GATE_NOTHING, GATE_WANTS_KILL, GATE_ENDED, GATE_LOST };
/* Take in what it said, without blocking. why: for WANTS_KILL, its words. */
enum gate_heard gate_hear(struct gate *g, char *why, size_t size);
/* Have it close everything of the sandbox and write the last records; rec_fd ends then. Does not wait. */
void gate_detach(struct gate *g);
/* End and reap it. Accepts an initialised one. */
void gate_done(struct gate *g);

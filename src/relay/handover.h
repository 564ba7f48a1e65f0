#pragma once
/*
 * Connections that the process that reads HTTP takes over (src/inspect; wire/inspect.h has the messages): handed on as
 * accepted, resolved, judged, recorded and dialled for it here when it asks, counted here until it says that they
 * ended. What it says is believed no more than a sandbox: it reads what sandboxes and servers send.
 */
#include "relay/flow_priv.h"

/* The socket to it, which whoever started both processes made: ours when this returns 0, and the only one. Else -errno. */
int must_check handover_open(struct loop *l, int fd);
/* Must f go that way, or be refused? (v is decided; nothing was read of the client.) */
bool handover_wants(const struct flow *f);
/* Hand f's client on. False: it cannot be. */
bool handover_take(struct flow *f);
/* The server is connected: hand the socket on. False: it cannot be. */
bool handover_up(struct flow *f);
/* It waits for a server and gets none. */
void handover_no_up(struct flow *f, const char *reason);
/* f ends here: have it closed there, unless it said so itself, and forget it. */
void handover_forget(struct flow *f);

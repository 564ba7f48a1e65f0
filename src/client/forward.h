#pragma once
/*
 * A local port that leads to one of a sandbox: HTTP/1.1 and WebSocket, a request for each
 * connection, passed on to the daemon with the fields that name the sandbox. Each connection has a
 * process of its own.
 */
#include "client/api.h"

enum { FORWARD_MAX = 128 }; /* connections at once; more wait */

/* "[ADDR:]PORT" */
int must_check forward_address(const char *text, char host[64], char port[8], struct err *e);
/* Until a signal. */
int must_check forward_serve(struct client *c, const struct box_ref *b, unsigned port,
			     const char *text, struct err *e);
/*
 * The head of a request as it is passed on: its own fields but those of one hop and ours, then
 * those of the sandbox. host: the daemon's name, port and path ("brig.example/api"). Its size, 0 =
 * more is needed, -errno with *why. *ret_switch: it asks for another protocol (WebSocket).
 */
int must_check forward_head(const uint8_t *p, size_t n, const struct box_ref *b, unsigned port,
			    const char *host, struct buf *out, bool *ret_switch, const char **why);

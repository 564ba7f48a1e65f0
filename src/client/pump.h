#pragma once
/*
 * Bytes both ways between a client of this machine and the daemon, once the head of the client's
 * request is known. Each way holds what was read last and no more, and a side that does not read
 * stops the other way only.
 */
#include "base/buf.h"

#include <curl/curl.h>

enum { PUMP_IDLE_MS = 300000 }; /* so long nothing may move, unless the protocol was switched */

/*
 * fd: the client's socket. c, daemon_fd: a connection of libcurl's. up: what goes to the daemon
 * first, and its first head_n bytes are the head; taken. asked: it asks for another protocol; what
 * follows it is sent when the daemon answered 101, and dropped when it answered something else,
 * since the daemon would read it as a request.
 *
 * Returns when the daemon has ended the connection, the client is gone, or nothing moved.
 */
void pump(CURL *c, int daemon_fd, int fd, struct buf *up, size_t head_n, bool asked);

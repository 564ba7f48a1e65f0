#pragma once
/*
 * The caller's standard input on its way into the sandbox: into a pipe of the sandbox or into the
 * framed channel of a stream. Never blocks.
 */
#include "base/buf.h"
#include "session/session.h"

#include <poll.h>
#include <stdbool.h>

struct inlet {
	int src_fd;            /* borrowed: the caller's stdin; -1 = ended or not wanted */
	int dst_fd;            /* owned: our end of the sandbox's pipe; -1 = framed or closed */
	struct stream *stream; /* framed: where bytes go; NULL otherwise */
	bool chosen;           /* `moves` was decided */
	bool moves;            /* splice instead of read and write */
	bool blocked;          /* the sandbox takes no more for now */
	struct buf held;
};

void inlet_init(struct inlet *i);
void inlet_done(struct inlet *i);
/* Begin to forward fd into a pipe (owned from here) or a stream. */
void inlet_to_pipe(struct inlet *i, int src_fd, int dst_fd);
void inlet_to_stream(struct inlet *i, int src_fd, struct stream *s);

/* What to wait for; fd -1 = nothing. */
void inlet_want(const struct inlet *i, struct pollfd *src, struct pollfd *dst);
void inlet_pump(struct inlet *i);
/* The sandbox reads no more, or its stream is gone: stop. */
void inlet_stop(struct inlet *i);

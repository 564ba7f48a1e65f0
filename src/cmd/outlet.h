#pragma once
/*
 * One output of the sandbox on its way to the caller: from a pipe of the sandbox, or from a framed
 * channel, to a descriptor or into memory. Nothing here blocks, so a caller that does not read its
 * end never keeps brig from seeing signals, the clock or the end of the sandbox.
 */
#include "base/buf.h"

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum outlet_way {
	OUTLET_UNKNOWN, /* decided at the first byte */
	OUTLET_SPLICE,  /* pipe or file: pages move, no copy */
	OUTLET_COPY,    /* read(2) and write(2) */
	OUTLET_SOCKET,  /* read(2) and send(2) */
	OUTLET_CAPTURE, /* into `kept` */
	OUTLET_DROP,    /* counted and thrown away */
};

struct outlet {
	int src_fd;       /* our end of the sandbox's pipe, owned; -1 = framed or closed */
	int dst_fd;       /* borrowed: the caller's stdout or stderr */
	int own_fd;       /* owned: a non-blocking opening of a terminal, -1 */
	enum outlet_way way;
	bool blocked;     /* dst is full: wait for it, not for the source */
	bool finished;    /* nothing more will come */
	bool nonblock;    /* src is O_NONBLOCK */
	bool widened;     /* the pipe was made larger */
	bool mid_line;    /* the last byte written was no line end; kept for terminals only */
	int error;        /* errno of a write that failed; the rest is dropped */
	uint64_t bytes;   /* taken from the sandbox */
	uint64_t quota;   /* bytes still to take: UINT64_MAX while the command runs */
	struct buf held;  /* read, not yet written */
	struct buf kept;  /* captured */
};

/* Forward to dst, or keep up to keep_max bytes when dst < 0. */
void outlet_init(struct outlet *o, int dst_fd, size_t keep_max);
void outlet_done(struct outlet *o);
static inline bool outlet_truncated(const struct outlet *o) { return o->bytes > o->kept.len; }

/* Fill in what to wait for; pf->fd is -1 when there is nothing to wait for. */
void outlet_want(const struct outlet *o, struct pollfd *pf);
/* Move what can be moved now. */
void outlet_pump(struct outlet *o);
/* The command has ended: take what is in the pipe at this moment and no more, so that a background
 * process that keeps the pipe open and busy does not hold the result back. */
void outlet_last(struct outlet *o);

/* Framed: take up to n bytes. Returns how many were taken; 0 = blocked. */
size_t outlet_take(struct outlet *o, const void *p, size_t n);

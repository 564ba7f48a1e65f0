#pragma once
/*
 * Bytes between two connected sockets, one direction each. Copied through a small shared buffer at first; a
 * direction that has carried much is spliced through a pipe, borrowed for as long as something is in it. So idle
 * connections hold neither buffer nor pipe. What one side does not take is kept, and the other side is then not
 * read: its sender is stopped by TCP itself.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	PUMP_STEP_MAX = 512 * 1024,    /* bytes one direction may move before others have their turn */
	PUMP_COPY_MAX = 16 * 1024,     /* the most that is kept when it is not taken */
	PUMP_SPLICE_AFTER = 64 * 1024, /* bytes copied before a pipe is worth it */
};

/* What is known of one socket: cleared by EAGAIN and by reads that got less than they asked for, set by its events. */
struct pump_side {
	int fd;
	bool readable, writable;
	bool odd;   /* an end or urgent data were announced: only EAGAIN says that nothing is left */
	bool ended; /* end of file was read, or its writer is gone */
	bool shut;  /* we ended our writing to it */
};

struct pump {
	uint8_t *kept; /* bytes read and not yet taken; owned */
	size_t kept_off, kept_n;
	int pipe[2];   /* -1 = none */
	size_t in_pipe;
	uint64_t total; /* bytes the other side took */
};

/* What epoll said of it (edge-triggered, epoll(7)). */
void pump_events(struct pump_side *s, uint32_t events);
void pump_init(struct pump *p);
void pump_done(struct pump *p);
/* Put bytes in front that were read from the sender before; at most one time, before the first step. 0 or -ENOMEM. */
int __attribute__((warn_unused_result)) pump_preload(struct pump *p, const void *data, size_t n);
enum pump_result {
	PUMP_WAIT,   /* nothing to do until an event */
	PUMP_MORE,   /* has used its turn, or *left, up */
	PUMP_ENDED,  /* end of file passed on */
	PUMP_BROKEN, /* reset by a side */
};
/* Move at most PUMP_STEP_MAX bytes and *left, which becomes less by what was read. */
enum pump_result pump_step(struct pump *p, struct pump_side *from, struct pump_side *to, uint64_t *left);

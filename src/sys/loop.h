#pragma once
/*
 * The event loop of the processes that hold connections: edge-triggered descriptors, things to do again at once, and a
 * tick. One thread.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct source {
	/* events as epoll(7) reports them. May close and free anything but the loop. */
	void (*ready)(struct source *s, uint32_t events);
	int fd; /* -1 = not watched */
};

struct loop {
	int epoll_fd;
	uint64_t now_ms;      /* monotonic, of the current turn */
	bool again;           /* something has work left that no event will announce */
	bool stop;
	void *garbage;        /* freed at the end of the turn, see loop_free_later */
};

int must_check loop_open(struct loop *l);
void loop_close(struct loop *l);
/* Watch s->fd, edge-triggered, for reading, urgent data, writing and the peer's end. */
int must_check loop_watch(struct loop *l, struct source *s);
/* Forget it, without closing. */
void loop_unwatch(struct loop *l, const struct source *s);
/* Close s->fd and forget it. */
void loop_drop(struct source *s);
/* One turn: wait at most wait_ms (-1 = for ever), deliver. */
void loop_turn(struct loop *l, int wait_ms);
/* Events already fetched may still name p: free it when they are through. p must start with two
 * pointers' room that nobody reads any more. */
void loop_free_later(struct loop *l, void *p);
uint64_t loop_clock_ms(void);

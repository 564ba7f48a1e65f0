#pragma once
/*
 * The event loop of the processes that hold connections: edge-triggered descriptors, things to do again at once, and a
 * tick. One thread.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct source {
	/* events as epoll(7) reports them. May close and free anything but the loop. */
	void (*ready)(struct source *s, uint32_t events);
	int fd; /* -1 = not watched */
};

/* Blocks of one size that come and go with each connection: some are kept, since giving pages back and getting them again
 * costs more than all else about them. */
struct spares {
	uint32_t max, n;      /* kept at most; now */
	void *kept, *dying;
	struct spares *next;  /* of those with dying ones */
};

struct loop {
	int epoll_fd;
	uint64_t now_ms;      /* monotonic, of the current turn */
	bool again;           /* something has work left that no event will announce */
	bool idle;            /* the turn brought no event: time for what nobody waits for */
	bool stop;
	void *garbage;        /* freed at the end of the turn, see loop_free_later */
	struct spares *dirty; /* likewise, see loop_spare_later */
};

int must_check loop_open(struct loop *l);
void loop_close(struct loop *l);
/* Watch s->fd, edge-triggered, for reading, urgent data, writing and the peer's end. */
int must_check loop_watch(struct loop *l, struct source *s);
/*
 * Watch it for these events of epoll(7), and change them. Where nothing waits to be written EPOLLOUT is better left out:
 * on a socket of this machine each read of the other side would wake us.
 */
int must_check loop_watch_for(struct loop *l, struct source *s, uint32_t events);
int must_check loop_change(struct loop *l, struct source *s, uint32_t events);
/* Forget it, without closing. An event of this turn may still come to s unless its fd is made -1. */
void loop_unwatch(struct loop *l, const struct source *s);
/* Close s->fd and forget it. */
void loop_drop(struct source *s);
/* One turn: wait at most wait_ms (-1 = for ever), deliver. */
void loop_turn(struct loop *l, int wait_ms);
/* Events already fetched may still name p: free it when they are through. p must start with a
 * pointer's room that nobody reads any more (the `ready` of a source whose fd is -1). */
void loop_free_later(struct loop *l, void *p);
/* A cleared block of size bytes, the same size for ever; NULL = no memory. */
void *loop_spare(struct spares *s, size_t size);
/* As loop_free_later, of such a one. */
void loop_spare_later(struct loop *l, struct spares *s, void *p);
/* CLOCK_MONOTONIC. */
uint64_t loop_clock_ms(void);
uint64_t loop_clock_us(void);

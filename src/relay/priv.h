#pragma once
/* Inside the gate's process: one attached sandbox and its connections. One thread, no locks. */
#include "net/net.h"
#include "gate/judge.h"
#include "relay/pump.h"
#include "relay/resolve.h"
#include "sys/loop.h"

#include <netinet/in.h>

struct flow;
struct lookup;
struct question; /* names.c: a datagram whose answer waits for the real name's */

struct box {
	char id[36], tier[16];
	struct loop *loop;
	struct source sock[NET_SOCKS]; /* by enum net_sock */
	int rec_fd;
	uint64_t seq;              /* of the next record */
	uint64_t lost;             /* records that found the pipe full, reports the kernel could not keep */
	struct judge *judge;       /* rules, names, answers, limits: the pure part */
	struct resolver *resolver;
	char *resolvers;           /* when the rules name none */
	struct lookup *lookups;    /* what names were resolved to a moment ago */
	uint32_t questions_n;      /* datagrams that wait */
	struct flow *flows;
	struct flow *busy, **busy_end; /* have work left that no event announces */
	uint64_t turn_left;        /* bytes that may still be moved in this turn */
	uint64_t first_room;       /* bytes held of clients' first ones */
	uint32_t streams;          /* of questions over TCP */
	bool again;                /* queues were left unfinished */
	bool kill_wanted;          /* told once */
	uint64_t sweep_at_ms;      /* when the connections' clocks are looked at next */
	void (*kill)(struct box *b, const char *why);
};

enum {
	/* What one sandbox may have of a turn, so that others on the same gate have theirs. */
	TURN_BYTES = 2 << 20,
	TURN_ACCEPTS = 16,
	TURN_QUESTIONS = 32,
	/* What one sandbox may have the gate hold. */
	BOX_FIRST_MAX = 8 << 20,
	BOX_STREAMS_MAX = 32,
	BOX_QUESTIONS_MAX = 64,
};

/* ---- box.c ---- */
/* rec_fd is the box's when this returns 0. */
int must_check box_open(struct loop *l, const char *id, const char *tier, const char *rules, size_t n,
			const char *resolvers, int rec_fd, struct box **ret, struct err *e);
/* The sandbox's sockets: the box's when this returns 0. */
int must_check box_sockets(struct box *b, const int fds[NET_SOCKS], struct err *e);
void box_free(struct box *b); /* closes every connection first, with its record */
/* Other rules: connections they do not permit are closed. On failure the old ones go on, and a record says so. */
int must_check box_policy(struct box *b, const char *rules, size_t n, struct err *e);
/* Once per turn: timers, and what had used its turn up. Returns milliseconds until it wants the next. */
int box_tick(struct box *b);
/* Write one decision. False when there is no room: then what it is about must not happen. */
bool box_record(struct box *b, struct judge_record *r);

/* ---- lookup.c ---- */
/*
 * What a name stands for, asked of the resolver, or what was answered a moment ago: a question of the sandbox's and the
 * connection that follows it are one. fn may be called before this returns; with ECANCELED when the box ends.
 */
void lookup(struct box *b, const char *name, resolve_fn fn, void *arg);
void lookups_free(struct box *b);

/* ---- accept.c ---- */
void flow_accept(struct box *b, int listener);

/* ---- flow.c ---- */
void flows_busy(struct box *b);   /* those that had used their turn up */
void flows_sweep(struct box *b);  /* clocks */
void flows_judged(struct box *b); /* b->judge is new: each is decided again */
void flows_close(struct box *b);

/* ---- names.c ---- */
void names_udp(struct box *b);
/* Record a refused question. */
void names_record(struct box *b, const struct judge_dns *d, const char *transport);

#pragma once
/* Inside the gate's process: one attached sandbox and its connections. One thread, no locks. */
#include "net/net.h"
#include "gate/judge.h"
#include "relay/pump.h"
#include "relay/records.h"
#include "relay/resolve.h"
#include "sys/loop.h"
#include "wire/gate.h"

#include <netinet/in.h>

struct flow;
struct lookup;
struct question; /* names.c: a datagram whose answer waits for the real name's */

struct box {
	char id[36], tier[16], task[GATE_TASK_MAX];
	struct loop *loop;
	struct source sock[NET_SOCKS]; /* by enum net_sock */
	struct records rec;
	struct judge *judge;       /* rules, names, answers, limits: the pure part */
	struct resolver *resolver;
	char *proxy_secret;        /* USER:PASSWORD for the rules' proxy; NULL = none */
	char *resolvers;           /* when the rules name none */
	struct lookup *lookups;    /* what names were resolved to a moment ago */
	uint32_t questions_n;      /* datagrams that wait */
	struct flow *flows;
	struct flow *over, **over_end; /* have ended, but their records found no room yet */
	struct flow *busy, **busy_end; /* have work left that no event announces */
	uint64_t turn_left;        /* bytes that may still be moved in this turn */
	uint64_t first_room;       /* bytes held of clients' first ones */
	uint32_t streams;          /* of questions over TCP */
	uint8_t diag_tries;        /* see who.c */
	bool again;                /* queues were left unfinished */
	bool kill_wanted;          /* told once; nothing is permitted any more */
	bool ends;                 /* box_end was called */
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
/* q: whose it is; rules: its text_n bytes and secret_n ones of credentials behind them. rec_fd is the box's when this returns 0. */
int must_check box_open(struct loop *l, const struct gate_ask *q, const char *rules, const char *resolvers, int rec_fd,
			struct box **ret, struct err *e);
/* The sandbox's sockets: the box's when this returns 0. */
int must_check box_sockets(struct box *b, const int fds[NET_SOCKS], struct err *e);
/* The sandbox ends: what it has asked until now is taken in and recorded, but nothing is permitted any more. */
void box_look(struct box *b);
/* Close every connection, each with its record. The box is to be freed when box_over says so. */
void box_end(struct box *b);
bool box_over(struct box *b); /* no record waits for room any more */
void box_free(struct box *b); /* at once; records that wait are gone */
/* Other rules, and behind them secret_n bytes of credentials: connections they do not permit are closed. On failure the old ones go on, and a record says so. */
int must_check box_policy(struct box *b, const char *rules, size_t n, size_t secret_n, struct err *e);
/* What asks for names by these rules. */
int must_check box_resolver(struct box *b, const struct judge *j, struct resolver **ret, struct err *e);
/* Once per turn: timers, and what had used its turn up. Returns milliseconds until it wants the next. */
int box_tick(struct box *b);
/*
 * Write one decision. False when there is no room: of a permission, that then must not happen; of an end, that must be told
 * later. A refusal that finds none is counted, and told as a repeat when there is; what cannot even be counted is a number
 * (`lost`) in the next record. So nothing goes unsaid, and what is kept has a bound.
 */
bool box_record(struct box *b, struct judge_record *r);

/* ---- policy.c ---- */
/* The proxy's credentials that came with the rules j, n bytes at p; without any, the box's if the old rules have the same
 * reference. *ret: NULL = j wants none; else for box_wipe. */
int must_check box_take_secret(const struct box *b, const struct judge *j, const struct judge *old, const char *p, size_t n,
			       char **ret, struct err *e);
void box_wipe(char *secret); /* accepts NULL */

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
void flows_told(struct box *b);   /* there is room for records: ends that were not told yet */

/* ---- names.c ---- */
void names_udp(struct box *b);
/* Record a refused question that `from` sent to `to`. */
void names_record(struct box *b, const struct judge_dns *d, const char *transport, const struct judge_peer *from,
		  const struct judge_peer *to);

/* ---- who.c ---- */
/* The user id inside of whoever has the socket that r->src is; false: not known. */
bool who_has(struct box *b, const struct judge_record *r, uint32_t *ret);

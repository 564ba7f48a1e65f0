#pragma once
/* Inside the gate's process: one attached sandbox and its connections. One thread, no locks. */
#include "net/net.h"
#include "gate/judge.h"
#include "sys/loop.h"
#include "relay/pump.h"
#include "relay/resolve.h"

#include <netinet/in.h>

struct flow;

/* What is counted over a second or the sandbox's life. */
struct box_counts {
	uint32_t conns;            /* open now */
	uint64_t tokens_milli;     /* of new connections: a bucket, thousandths */
	uint64_t tokens_at_ms;
	uint64_t lost_records;     /* that found the pipe full */
};

struct box {
	char id[36], tier[16];
	struct loop *loop;
	struct source sock[NET_SOCKS]; /* by enum net_sock */
	int rec_fd;
	uint64_t seq;              /* of the next record */
	struct judge *judge;       /* rules, names, answers: the pure part */
	struct resolver *resolver;
	struct flow *flows;
	struct box_counts n;
	bool kill_wanted;          /* told once */
	uint64_t sweep_at_ms;      /* when the connections' clocks are looked at next */
	void (*kill)(struct box *b, const char *why);
};

/* ---- box.c ---- */
int must_check box_open(struct loop *l, const char *id, const char *tier, const char *rules, size_t n,
			const char *resolvers, const int fds[NET_SOCKS], int rec_fd, struct box **ret, struct err *e);
void box_free(struct box *b); /* closes every connection first, with its record */
/* Once per turn: timers, and what had used its turn up. Returns milliseconds until it wants the next. */
int box_tick(struct box *b, bool again);
/* Write one decision. False when there is no room: then what it is about must not happen. */
bool box_record(struct box *b, struct judge_record *r);

/* ---- flow.c ---- */
void flow_accept(struct box *b, int listener);
void flow_tick(struct box *b);
void flows_close(struct box *b);

/* ---- names.c ---- */
void names_udp(struct box *b);
/* Answer a question that came over TCP: a message without its length. Returns the answer's size, 0 = none. */
size_t names_answer(struct box *b, const uint8_t *q, size_t n, uint8_t *out, size_t size);

#pragma once
/*
 * One connection, from the sandbox's connect(2) to its end.
 *
 *   accept.c  accept -> where to? -> decide -> limits
 *   first.c   [the client's first bytes]
 *   dial.c    [resolve] -> judge addresses -> record -> dial -> [proxy.c: a tunnel] -> [postgres: does the server agree to TLS?]
 *   handover.c  [what HTTP rules are about goes to a process of its own, which asks for the dial]
 *   flow.c    relay, clocks, the end; policy.c new rules
 *
 * A no at any point is one record and a reset. The record is written before the dial, and without room for it
 * there is no dial. What was judged is what is dialled. Both ends are hostile; their bytes are moved, and of the
 * client's first ones judged.
 */
#include "relay/priv.h"

enum flow_state {
	F_PICK,    /* waits for the first bytes too: they tell which of several names is meant */
	F_FIRST,   /* waits for the client's first bytes */
	F_DNS,     /* questions over TCP */
	F_RESOLVE,
	F_DIAL,
	F_PROXY,   /* asked the proxy for a tunnel */
	F_ANSWER,  /* postgres: waits for the server's one byte */
	F_FIRST_TLS, /* postgres: waits for the ClientHello that follows */
	F_RELAY,
	F_AWAY,    /* the process that reads HTTP has the client, see handover.h */
	F_OVER,    /* has ended and holds nothing, but its record waits for room */
	F_DEAD,
};
enum { FIRST_MAX = 64 * 1024, FIRST_MS = 10000, FIRST_ROOM = 2048, DNS_MS = 30000 };

struct flow {
	struct source client, up; /* first: see loop_spare_later */
	struct box *b;
	struct flow *next, **at;           /* of the box */
	struct flow *busy_next, **busy_at; /* of the box's busy ones; busy_at NULL = it is none */
	enum flow_state state;
	bool counted, ruled;  /* judge_open: of the sandbox, of the rule */
	bool resolving;       /* its answer will come, whatever else happens */
	bool streaming;       /* dns_stream is at work */
	uint64_t away;        /* number of one that was handed over; 0 = it was not */
	struct flow *away_next, *over_next;
	char why[JUDGE_WORD_MAX]; /* OVER: how it ended */
	bool away_asked;      /* there it was wanted to be dialled */
	bool away_closed;     /* there it has ended already */
	bool recorded;        /* a permission was recorded, so an end is */
	struct judge_dest dest;
	struct judge_verdict v;
	struct judge_hello seen;
	struct judge_peer src, out;
	uint8_t *first;
	size_t first_n, first_cap;
	struct judge_peer via;     /* the proxy it goes through; port 0 = none */
	bool by_name;              /* which resolves the name */
	const char *no_up;         /* why the last dial came to nothing, static; NULL = there was none */
	struct resolve_addr *addr; /* that may be dialled */
	uint32_t addr_n, addr_at;
	struct resolve_addr tried; /* the one dialled last */
	bool has_tried;
	bool connected;            /* up is, to a server or proxy */
	struct pump_side c, u;
	struct pump to_up, to_client;
	uint64_t told_up, told_down; /* of the pumps' totals: counted against limits */
	uint64_t begun_ms, deadline_ms, moved_ms, asked_ms, dns_ms, dialled_ms, connect_ms;
};

#define FLOW_OF(src, field) ((struct flow *)(void *)((char *)(src) - offsetof(struct flow, field)))

/* ---- first.c ---- */
void first_bytes(struct flow *f);
/* What was read to judge goes up before all else, and is no longer held. False: no room, and the flow is closed. */
bool first_goes_up(struct flow *f);
void pick_name(struct flow *f);
void dns_stream(struct flow *f); /* also when an answer it waited for has come */

/* ---- accept.c ---- */
void flow_decide(struct flow *f); /* where it goes is known; its client is watched */
void flow_free(struct flow *f); /* when the events already fetched are through */

/* ---- dial.c ---- */
void flow_go_up(struct flow *f); /* everything the client said is good */
void dial_next(struct flow *f);  /* the next address that takes us, or the end */
void flow_answer(struct flow *f);
void dial_own(struct flow *f);  /* note the address it goes out from, while the socket is there: only records want it */
void dial_done(struct flow *f); /* the server is there, or a tunnel to it */

/* ---- proxy.c ---- */
void proxy_begin(struct flow *f); /* the proxy is connected */
void proxy_ready(struct flow *f); /* it may have answered */

/* ---- flow.c ---- */
void client_ready(struct source *s, uint32_t events);
void flow_relay(struct flow *f);
void flow_moved(struct flow *f); /* count what moved; may end it */
void flow_start_relay(struct flow *f); /* both ends are connected */
void flow_note(struct flow *f, struct judge_record *r);
void flow_deny(struct flow *f, const char *reason, const struct resolve_result *res);
void flow_close(struct flow *f, const char *why, bool hard); /* of one that was permitted */
void flow_bury(struct flow *f, bool hard);
void flow_end(struct flow *f, const char *reason); /* as a refusal when its fate was not recorded yet; else as an end */

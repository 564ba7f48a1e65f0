#pragma once
/* Inside the process that reads HTTP: attached sandboxes and their connections. One thread, no locks. */
#include "gate/judge.h"
#include "inspect/authority.h"
#include "inspect/side.h"
#include "inspect/sieve.h"
#include "parse/http_chunks.h"
#include "sys/loop.h"
#include "wire/inspect.h"

enum { SECRETS_MAX = 64, MARKS_MAX = 60, VALUE_MAX = 16 * 1024 };

struct secret {
	char *ref, *value; /* owned; value is wiped */
};

struct box {
	char id[36];
	struct loop *loop;
	struct judge *judge;
	struct authority *ca;   /* NULL = no rule ends TLS */
	struct secret secret[SECRETS_MAX];
	uint32_t secrets;
	char *mark[MARKS_MAX];  /* placeholders, each once; its place is its tag */
	uint32_t marks_n;
	struct needles marks;   /* their forms */
	struct needles redact;  /* forms of the secrets that must not come back */
	struct conn *conns;
};

enum conn_state {
	C_HELLO,  /* the client's first message is read, to be judged */
	C_SHAKE,  /* TLS with the client */
	C_HTTP,
	C_TUNNEL, /* an upgrade was agreed on: bytes */
	C_LINGER, /* what was said last is delivered, the rest is dropped */
	C_DEAD,
};
enum up_state { UP_NONE, UP_ASKED, UP_SHAKE, UP_READY };

/* One request and its answer. */
struct exchange {
	bool open;      /* permitted and passed on */
	bool recorded;
	char method[HTTP_METHOD_MAX + 1], host[256], path[512];
	char inject_header[64], secret_ref[128];
	char upgrade[HTTP_METHOD_MAX + 1]; /* asked for and permitted */
	bool to_head, http10, expect, close;
	/* the request's body */
	bool req_done;
	enum http_body req_body;
	uint64_t req_left, req_seen;
	struct http_chunks req_chunks;
	struct sieve req_sieve;
	/* the answer */
	bool res_head, res_done, res_chunked; /* its head is through; all of it; we write it in chunks */
	uint32_t interim;
	enum http_body res_body;
	uint64_t res_left;
	struct http_chunks res_chunks;
	struct sieve res_sieve;
};

struct conn {
	struct side c, u; /* first: see loop_free_later. The client, the server */
	struct box *b;
	struct conn *next, **at;
	uint64_t flow;
	enum conn_state state;
	enum up_state up;
	bool tls, more, waits; /* waits: for the server's end, before the head in c.in goes on */
	struct judge_dest dest;
	struct judge_verdict v;
	const struct judge_http *http; /* of the judge */
	struct judge_hello hello;
	uint64_t marks_ok;      /* tags of the placeholders that belong here */
	bool may_inject, redacts;
	size_t head_seen, res_seen; /* bytes of an unfinished head looked at */
	uint32_t requests;
	struct exchange x;
	uint64_t told_up, told_down;
	uint64_t begun_ms, moved_ms, deadline_ms; /* deadline: of the state or the head; 0 = none */
};

/* ---- control.c ---- */
/* Tell the gate; kept until it takes it. False: too much is kept already, nothing more may be permitted. */
bool tell_gate(const struct inspect_tell *t);
bool tell_room(void);

/* ---- box.c ---- */
/* fds are borrowed. */
int must_check box_open(struct loop *l, const char *id, const char *rules, size_t n, const uint8_t *secrets, size_t secrets_n,
			const int *trust, size_t trust_n, struct box **ret, struct err *e);
/* Other rules: connections go on as far as these permit them. On failure the old ones stay. */
int must_check box_policy(struct box *b, const char *rules, size_t n, const uint8_t *secrets, size_t secrets_n,
			  struct err *e);
void box_free(struct box *b);
const char *box_secret(const struct box *b, const char *ref); /* NULL = not there */

/* ---- conn.c ---- */
/* The client's socket is owned from here on. */
void conn_take(struct box *b, const struct inspect_hand *h, int fd);
void conn_up(struct conn *k, int fd);
void conn_no_up(struct conn *k, const char *reason);
void conn_end(struct conn *k, const char *why, bool hard); /* hard: reset both ends */
void conn_drop(struct conn *k, const char *why); /* at once */
void conn_step(struct conn *k);
void conn_tick(struct conn *k); /* its clocks, what it moved */
/* Decide where it goes again, by the box's rules. False: it may not be any more. */
bool conn_decide(struct conn *k);
void conn_dial(struct conn *k);
/* None came: the connection is refused, and told so as far as HTTP can. */
void conn_no_request(struct conn *k, uint32_t status, const char *reason);
void conn_linger(struct conn *k); /* no more requests: deliver, then close */

struct refusal {
	uint32_t status; /* 0 = permitted */
	const char *reason;
};
/* ---- ahead.c: what of the body is here with its head of `size` bytes, at the front of c.in ---- */
struct refusal body_ahead(struct conn *k, const struct http_head *h, size_t size);

/* ---- tail.c: steps; true when something moved ---- */
bool tunnel_step(struct conn *k);
bool linger_step(struct conn *k);

/* ---- request.c, response.c: steps; true when something moved ---- */
bool request_step(struct conn *k);
bool response_step(struct conn *k);
void exchange_begin(struct exchange *x);
void exchange_end(struct exchange *x);
/* A decision about the request of k->x. False: no room, so it must not happen. */
bool exchange_record(struct conn *k, bool allow, const char *reason, uint32_t status);
/* Refuse the request of k->x: record and answer, unless one has begun; the connection is over. */
void exchange_refuse(struct conn *k, uint32_t status, const char *reason);
/* Only the answer. */
void exchange_answer(struct conn *k, uint32_t status, const char *reason);
/* Content in the framing of a message: a run of it, and the end. */
int must_check put_content(struct buf *out, bool chunked, const uint8_t *p, size_t n, bool last);

/* ---- inject.c ---- */
/* The value to send for inject rule i, given the client's own (p NULL = none): 1 = in out, NUL-terminated; 0 = the
 * client's goes as it is; -ENOENT, -ENOBUFS. */
int must_check inject_value(const struct box *b, const struct judge_inject *i, struct http_text own, char out[VALUE_MAX]);

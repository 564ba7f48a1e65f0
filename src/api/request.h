#pragma once
/*
 * One HTTP request. The server (server.c) makes it, finds who serves it, feeds it, and sends what the answer is set to; a
 * handler sets the answer at once or later, from the loop.
 */
#include "api/api.h"
#include "api/where.h"
#include "daemon/key.h"

#include <microhttpd.h>

enum {
	REQUEST_BODY_MAX = 4 * 1024 * 1024, /* of the control API */
	REQUEST_TARGET_MAX = 16 * 1024,
	REQUEST_ANSWER_FIELDS = 8,
};
#define REQUEST_TIME_MAX_MS INT64_C(253402300799999) /* the last that has four digits for its year */

struct route;

struct request {
	struct source client; /* watches for the client's end while nothing else does */
	struct api *api;
	struct daemon *d; /* NULL = not begun */
	struct MHD_Connection *conn;
	char *target;       /* path and query as they came; owned */
	const char *method; /* MHD's */
	struct request *next, **at; /* while it is suspended: of all that are */
	bool begun, whole, suspended, watched, gone, queued, cut;
	uint64_t discarded;

	/* control API */
	const struct route *route;
	struct store_key who;
	bool v2;
	char word[WHERE_ID_MAX + 1]; /* what stands for {id} in the path */
	struct buf body;
	char *list, *names; /* ids in the query, owned; those that come next */
	json_t *found;      /* of them, owned */
	uint64_t until_ms;
	bool too_big, unknown; /* the body was; nobody with a key asks */

	/* a sandbox's traffic */
	struct where where;
	bool cors, resuming;
	struct ask *ask;
	struct request *next_begun, **at_begun; /* while it is in api.begun */
	bool upgrade;          /* the client asks for another protocol, and the port is no part of brig */
	struct tunnel *tunnel; /* it speaks that protocol */

	/* the answer */
	struct MHD_Response *answer; /* owned until queued */
	unsigned status;
};

/* ---- reply.c: the first answer counts ---- */
void reply_status(struct request *q, unsigned status);
/* Takes the reference. */
void reply_json(struct request *q, unsigned status, json_t *body);
void reply_text(struct request *q, unsigned status, const char *type, const char *text, size_t n);
/* {"code":status,"message":...} */
void reply_error(struct request *q, unsigned status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* As reply_error, about a sandbox: with "sandboxId", and "port" if there is one. */
void reply_box_error(struct request *q, unsigned status, const char *id, unsigned port, const char *message);
void reply_field(struct request *q, const char *name, const char *value);

/* ---- server.c ---- */
/* Something changed (an answer was set, there is room): the connection goes on. */
void request_wake(struct request *q);
const char *request_field(const struct request *q, const char *name); /* NULL = not there */

/* ---- route.c ---- */
typedef void handler_fn(struct request *q, json_t *body);
struct route {
	const char *method, *path; /* {id} stands for one segment */
	uint32_t scope;            /* enum key_scope; 0 = no key is needed */
	bool body;                 /* JSON; an empty body is {} */
	handler_fn *handle;
};
/* The row for a method and path; NULL with *ret_status 404 or 405. *ret_v2: below /v2. */
const struct route *route_find(const char *method, const char *target, char id[WHERE_ID_MAX + 1], bool *ret_v2,
			       unsigned *ret_status);
/* The body has come: check it and call the handler. */
void route_run(struct request *q);

/* ---- proxy.c ---- */
/* Decide about a request for a sandbox: sets an answer, or a call to its keeper. */
void proxy_begin(struct request *q);
/* Some of its body: bytes taken, 0 = later. */
size_t proxy_body(struct request *q, const void *p, size_t n);
void proxy_body_end(struct request *q);

/* ---- tunnel.c ---- */
/* Whether the head asks for a switch of protocols that can be passed on: Upgrade with one word, named by Connection, of
 * a GET without a body. */
bool tunnel_asked(const struct request *q);
/* The answer for a keeper's 101: bytes go both ways from then on, until either side ends. */
struct MHD_Response *tunnel_response(struct request *q);
void tunnel_step(struct request *q);
/* Cut both sides. Accepts a request that has none. */
void tunnel_end(struct request *q);

/* ---- box.c ---- */
/* The caller's sandbox of this name; else NULL, and 404 is the answer. */
struct box *request_box(struct request *q);
json_t *box_short(const struct daemon *d, const struct box *b); /* Sandbox */
json_t *box_detail(const struct daemon *d, const struct box *b, bool listed); /* SandboxDetail, ListedSandbox */

/* ---- list.c ---- */
struct page {
	unsigned long limit;
	int64_t from_ms; /* with from_id: the last row of the page before */
	char from_id[BOX_ID_SIZE]; /* "" = this is the first page */
};
/* `limit` (1 to max; max when there is none) and `nextToken` of the query. False: the answer says what is wrong. */
bool must_check page_read(struct request *q, unsigned long max, struct page *ret);
/* The answer's field that names the next page. */
void page_next(struct request *q, int64_t last_ms, const char *last_id);

/* ---- metrics.c ---- */
typedef bool request_wants_fn(const struct request *q, const struct box *b);
/*
 * Ask the keeper (docs/envd.md) of the next of q->names that lives, is wanted (wants: NULL = each is) and can be reached; its id
 * is q->word then, and done as ask_json_open's, owned by q. False: there is no more, or q->until_ms has come.
 */
bool must_check request_ask_next(struct request *q, const char *target, uint64_t limit_ms, request_wants_fn *wants, ask_done_fn *done);

#define ROUTE(method, path, scope, body, handler) void handler(struct request *q, json_t *body_);
#include "api/routes.def"
#undef ROUTE

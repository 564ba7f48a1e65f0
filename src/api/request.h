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

struct route;

struct request {
	struct source client; /* watches for the client's end while nothing else does */
	struct api *api;
	struct daemon *d; /* NULL = not begun */
	struct MHD_Connection *conn;
	char *target;       /* path and query as they came; owned */
	const char *method; /* MHD's */
	bool begun, whole, suspended, watched, gone, queued, cut;
	uint64_t discarded;

	/* control API */
	const struct route *route;
	struct store_key who;
	bool v2;
	char word[WHERE_ID_MAX + 1]; /* what stands for {id} in the path */
	struct buf body;
	bool too_big, unknown; /* the body was; nobody with a key asks */

	/* a sandbox's traffic */
	struct where where;
	bool cors, resuming;
	struct ask *ask;
	bool started; /* the ask was sent its head */

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

/* ---- box.c ---- */
/* The caller's sandbox of this name; else NULL, and 404 is the answer. */
struct box *request_box(struct request *q);
json_t *box_short(const struct daemon *d, const struct box *b); /* Sandbox */
json_t *box_detail(const struct daemon *d, const struct box *b, bool listed); /* SandboxDetail, ListedSandbox */
/* "2026-11-30T11:22:33.444Z" */
enum { STAMP_SIZE = 32 };
void stamp(int64_t ms, char dst[STAMP_SIZE]);

#define ROUTE(method, path, scope, body, handler) void handler(struct request *q, json_t *body_);
#include "api/routes.def"
#undef ROUTE

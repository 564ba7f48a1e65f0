#pragma once
/*
 * Which function answers which call: the rows of routes.def, and what is done before it is called:
 * the body is read whole where it is JSON, and the user looked up where the route acts as one.
 */
#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct talk;

/* How request and answer look, and with them how a failure is told. */
enum route_shape {
	SHAPE_PLAIN, /* the function sets talk_ops itself; failures are {"code":status,"message"} */
	SHAPE_JSON,  /* the body is a JSON object or nothing; failures as above */
	SHAPE_UNARY, /* Connect: the same, and failures have the code as a word */
	SHAPE_STREAM, /* Connect: one envelope; the answer is envelopes, failures too */
	SHAPE_FLOW,   /* Connect: envelopes both ways; the function sets talk_ops itself */
};

enum route_user { NOBODY, AS_USER };

struct route {
	const char *method, *path; /* a path that ends with '*' is a prefix */
	enum route_shape shape;
	enum route_user user;
	/* req: borrowed, an object; NULL on SHAPE_PLAIN and SHAPE_FLOW. */
	void (*serve)(struct talk *t, json_t *req);
};

enum { BODY_MAX = 4 * 1024 * 1024 };

/* The head of t has come: find who serves it. */
void route_talk(struct talk *t);
/* Whether it came from a client, and not from brigd itself or one whose pages speak for themselves.
 */
bool route_is_client(const struct talk *t);
/* Let go of what was gathered. */
void route_done(struct talk *t);
/* What the target has after the row's prefix, still encoded and with its query. */
const char *route_rest(const struct talk *t);

enum fail {
#define CODE(id, word, status) FAIL_##id,
#include "keep/codes.def"
#undef CODE
	FAIL_COUNT
};
/* A whole answer, or the end of the stream that was begun, that says what went wrong. */
void fail(struct talk *t, enum fail code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* As fail on a route that is no RPC, with a status of its own. */
void fail_status(struct talk *t, unsigned status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
const char *fail_word(enum fail code);

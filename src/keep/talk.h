#pragma once
/*
 * A talk is one call and its answer: one connection of brigd's (wire/call.h). What serves it, its
 * job, is a struct talk_ops and an argument.
 *
 * Nothing here closes or frees at once: these functions only queue and note, and talk_turn does
 * what was noted at the end of a turn of the loop, so a talk stays valid inside every callback.
 *
 * Memory of one talk is bounded: a piece of the request, TALK_OUT bytes of the answer and a little.
 * A job that is refused room stops producing until `writable`.
 */
#include "base/buf.h"
#include "keep/route.h"
#include "sys/loop.h"
#include "wire/call.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct keep;
struct talk;

enum { TALK_OUT = 256 * 1024, TALKS_MAX = 512 };

struct talk_ops { /* every callback may be NULL */
	/* Bytes of the request's body: how many were taken. The rest is offered again after
	 * talk_resume. NULL: thrown away. */
	size_t (*data)(struct talk *t, const void *p, size_t n);
	/* The body is whole. */
	void (*end)(struct talk *t);
	/* talk_room was refused, and there is room again. */
	void (*writable)(struct talk *t);
	/* The answer is through, or the client is gone: let go of t, which is freed afterwards.
	 * Called once. */
	void (*closed)(struct talk *t);
};

struct talk {
	struct source src;
	struct keep *k;
	struct talk *next, *prev;
	const struct route *route;  /* NULL before the head has come */
	const struct talk_ops *ops; /* NULL = the body is thrown away */
	void *arg;		    /* the job's */
	void *gather;		    /* route.c's, until the job is called */
	struct lookup *lookup;	    /* users.c's, until the user is known */
	struct keep_user *user;	    /* whom it acts as, on routes that ask; owned */
	uint8_t *head_bytes;	    /* owned; head points into it */
	struct call_head head;
	struct buf in, out;
	struct buf rest;  /* more of the answer, see talk_answer */
	size_t piece_off; /* bytes of the BODY piece at the front of `in` that were taken */
	bool readable;	  /* the socket may have more */
	bool stalled;	  /* the job did not take all */
	bool body_ended;
	bool head_sent, ended, cut, gone;
	bool src_ended; /* the other side sends no more */
	bool end_queued;
	bool waits; /* for the sandbox's end */
	bool waits_code; /* for the first context to be up */
	bool wants_room, dirty;
	bool wants_output; /* watched for room to write */
	bool held;	   /* see talk_hold */
};

/* Begin the answer. Once. Fields of CORS are added where the route is a client's. */
void talk_reply(struct talk *t, unsigned status, const struct call_field *f, uint32_t n);
/* What was queued goes out with what is queued next: one wake-up of everybody on the way instead of two. */
void talk_hold(struct talk *t);
/* Bytes of the answer that may be queued now. 0: `writable` will be called. */
size_t talk_room(struct talk *t);
/* Queue bytes of the answer's body: at most talk_room, or one message of up to CALL_PIECE_MAX bytes
 * when that is not 0. */
void talk_send(struct talk *t, const void *p, size_t n);
/* The answer is whole. */
void talk_end(struct talk *t);
/* Close without END: the client sees a broken connection. */
void talk_cut(struct talk *t);
/* Offer the rest of the body again. */
void talk_resume(struct talk *t);
/* A whole answer with a body of this type; empties b, which may be of any size. */
void talk_answer(struct talk *t, unsigned status, const char *type, struct buf *b);
/* A whole answer of JSON; takes the reference. NULL is the failure to make it. */
void talk_json(struct talk *t, unsigned status, json_t *o);
/* A whole answer without a body. */
void talk_status(struct talk *t, unsigned status);
/* No more callbacks, and the rest of the body is thrown away. */
void talk_detach(struct talk *t);

/* ---- for the loop ---- */
/* Take in a connection; closes fd when it cannot. */
void talk_open(struct keep *k, int fd);
/* Do what was noted. */
void talk_turn(struct keep *k);
/* Every connection, now, without END. */
void talk_cut_all(struct keep *k);

#pragma once
/*
 * brigd's end of one call to a keeper (wire/call.h). Nothing blocks. What comes is pulled by ask_read, so a caller who
 * takes nothing stops the sender by the socket's own buffers.
 */
#include "sys/loop.h"
#include "wire/call.h"

#include <sys/types.h>

enum ask_phase {
	ASK_WAITS,  /* no answer yet */
	ASK_HEAD,   /* its head is there: ask_answer, then ask_body_begin */
	ASK_BODY,   /* ask_read */
	ASK_DONE,   /* the answer was whole and is read */
	ASK_CUT,    /* the connection ended before */
};

struct ask {
	struct source src;
	struct loop *loop;
	/* Something came, room was made, or it was cut. Not called from inside the functions below. May drop a. */
	void (*notify)(struct ask *a, void *owner);
	void *owner;
	enum ask_phase phase;
	struct buf in, out;
	size_t head_n;   /* ASK_HEAD: bytes of its piece */
	size_t left;     /* ASK_BODY: bytes of the current piece not read yet */
	bool readable, eof, deaf; /* deaf: takes no more of the request */
	bool wants_output; /* watched for room to write */
	bool corked;       /* what is put in waits for ask_uncork, or for the end of the request */
};

/* Connect to the socket. -errno: nobody is there. */
int must_check ask_open(struct loop *l, const char *path, void (*notify)(struct ask *, void *), void *owner,
			struct ask **ret);
/* Accepts NULL. The keeper sees the connection cut if it was not at its end. */
void ask_drop(struct ask *a);

int must_check ask_request(struct ask *a, const char *method, const char *target, const struct call_field *f,
			   uint32_t n);
/* Take in some of the request's body: how many bytes, 0 = later (notify), or -errno. */
ssize_t must_check ask_put(struct ask *a, const void *p, size_t n);
/* The body is whole. */
int must_check ask_put_end(struct ask *a);
/* Send what was held back. */
void ask_uncork(struct ask *a);
static inline size_t ask_unsent(const struct ask *a) { return a->out.len; }

/* How far the answer is. */
enum ask_phase ask_look(struct ask *a);
/* ASK_HEAD: the strings point into a, until ask_body_begin. */
int must_check ask_answer(const struct ask *a, struct call_head *ret);
void ask_body_begin(struct ask *a);
/* ASK_BODY: some of the body. 0 = nothing now: ask_look says whether it has ended, else notify tells. */
size_t ask_read(struct ask *a, void *dst, size_t n);

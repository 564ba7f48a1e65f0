#pragma once
/* Text of a payload, appended to a buffer piece by piece (payload.c). */
#include "base/buf.h"

struct payload {
	struct buf *b; /* what is in it counts after payload_end only */
	char *at;      /* where the next byte goes */
	size_t room;   /* how many may */
	int err; /* the first: -ENOMEM, -ENOBUFS, -EINVAL (a format); nothing is appended after it
		  */
};
struct payload payload_begin(struct buf *b);
int must_check payload_end(struct payload *t); /* t->err */
void payload_put(struct payload *t, const char *s, size_t n);
/* As printf(3), of which it knows %s, %c, %d, %u, %x, with # and l. */
void payload_out(struct payload *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A text of anybody's as JSON has it, quotation marks included; null when s is NULL. What is no
 * UTF-8 is shown quoted. */
void payload_json(struct payload *t, const char *s);
void payload_json_n(struct payload *t, const char *s, size_t n);

#pragma once
/* Writing JSON by hand, where a tree of values would cost too much. */
#include "base/buf.h"

#include <jansson.h>
#include <stddef.h>

/* Append a string in quotes; what is no UTF-8 becomes U+FFFD. 0, -ENOBUFS, -ENOMEM. */
int must_check text_put_json(struct buf *b, const char *p, size_t n);
int must_check text_put(struct buf *b, const char *s);
/* Append a value, compact; takes the reference. NULL, a value that could not be made, is -ENOMEM.
 */
int must_check text_put_value(struct buf *b, json_t *o);
int must_check text_putf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

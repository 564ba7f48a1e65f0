#pragma once
/* gzip, unpacked as it comes: one block of output at a time, however much a byte of input makes. */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct inflate;

struct inflate *inflate_new(void);    /* NULL: no memory */
void inflate_free(struct inflate *g); /* accepts NULL */
/* Take input; its bytes taken, -EBADMSG. *ret is what is unpacked and not taken yet. */
ssize_t must_check inflate_step(struct inflate *g, const uint8_t *p, size_t n, const uint8_t **ret,
				size_t *ret_n);
/* n bytes of *ret were taken. */
void inflate_taken(struct inflate *g, size_t n);
/* A step without input would give something. NULL: false. */
bool inflate_pending(const struct inflate *g);
bool inflate_ended(const struct inflate *g); /* its end was read */

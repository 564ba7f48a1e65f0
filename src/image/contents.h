#pragma once
/*
 * What files hold, by inode: contents that were digested once, while they were written or under another of their
 * names, are not read again. Bounded: what finds no room is not kept, and read again.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { CONTENTS_SUM = 32, CONTENTS_MAX = 1 << 20 /* files */ };

struct contents;
struct contents *contents_new(void); /* NULL = out of memory */
void contents_free(struct contents *c); /* accepts NULL */
/* Keep a sum; forgotten when there is no room. */
void contents_put(struct contents *c, dev_t dev, ino_t ino, const uint8_t sum[CONTENTS_SUM]);
/* The sum kept for this inode, valid until the next put; NULL = none. */
const uint8_t *contents_find(const struct contents *c, dev_t dev, ino_t ino);

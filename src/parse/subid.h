#pragma once
/* Subordinate ids, subuid(5): lines "name-or-uid:first:count". */
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* The first range of at least `count` ids for a user, by name (may be NULL) or number, in text[0..n).
 * 0 or -ENOENT. Broken lines are skipped. */
int must_check subid_parse(const char *text, size_t n, const char *name, uint32_t uid, uint32_t count,
			   uint32_t *ret_first);
/* The same from a file of at most 64 KiB. 0, -ENOENT, or why it could not be read. */
int must_check subid_find(const char *path, const char *name, uint32_t uid, uint32_t count, uint32_t *ret_first);

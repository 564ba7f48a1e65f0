#pragma once
#include "base/buf.h"
#include "base/err.h"

#include <stddef.h>

/*
 * The value a secret's reference stands for, read on the host by whoever starts the sandbox:
 *   env:NAME   brig's own environment        file:PATH   a file
 *   fd:N       an open descriptor, read once (its value is kept for new rules)
 *   cmd:WORDS  what /bin/sh -c WORDS prints, within SECRET_CMD_MS
 * One line end at its end is cut; 1 to SECRET_MAX printable ASCII bytes are left. Put into *ret, never into a message.
 */
enum { SECRET_MAX = 8192, SECRET_CMD_MS = 15000 };
int must_check secret_read(const char *ref, struct buf *ret, struct err *e);

#pragma once
/* Where brig keeps what outlives a command: records, keys, images. */
#include "base/err.h"

#include <stddef.h>

/* The state folder: BRIG_STATE, else /var/lib/brig as root, else $XDG_STATE_HOME or ~/.local/state, /brig. */
int must_check state_dir(char *dst, size_t size, struct err *e);
/* Make such a folder, 0700, with what is missing above it, 0755. One that is there is left as it is. */
int must_check state_make_dir(const char *path, struct err *e);

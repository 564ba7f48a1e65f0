#pragma once
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Find a program of brig's: beside our own, else where `make install` puts it; refused if anybody but root and
 * the caller could change it. *ret_fd is an O_PATH descriptor owned by the caller, path where it was found,
 * *ret_ours that it belongs to an ordinary caller.
 */
int must_check program_find(const char *name, char *path, size_t size, int *ret_fd, bool *ret_ours, struct err *e);
/*
 * Run a program of brig's that was found, as a child in a session of its own, without arguments and environment: it gets
 * ctl as descriptor 3 and, unless it is -1, peer as 4; both above 4 here. Nothing else is left open. 0 or -errno.
 */
int must_check program_spawn(int prog_fd, const char *name, int ctl, int peer, pid_t *ret);

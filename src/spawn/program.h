#pragma once
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Find a program of brig's: beside our own, else where `make install` puts it; refused if anybody but root and
 * the caller could change it. *ret_fd is an O_PATH descriptor owned by the caller, path where it was found,
 * *ret_ours that it belongs to an ordinary caller.
 */
int must_check program_find(const char *name, char *path, size_t size, int *ret_fd, bool *ret_ours, struct err *e);

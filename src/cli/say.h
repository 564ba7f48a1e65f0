#pragma once
/* What brig says to people: one line each on standard error, and text on standard output. */
#include "base/err.h"

#include <stddef.h>

/* "brig: TEXT" on stderr, in one write. A text without a line end gets one. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same for a failure. Returns EXIT_FAULT, the exit code of every fault of brig's own. */
int say_err(const struct err *e);
/* Say how to get help after wrong usage of a command. Returns EXIT_FAULT. */
int say_usage(const char *command, const struct err *e);

/* Write all n bytes to fd. 0 or -errno. */
int must_check say_raw(int fd, const void *p, size_t n);

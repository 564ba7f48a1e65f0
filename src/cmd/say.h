#pragma once
/* What brig says to people: one line each on standard error, and text on standard output. */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* "brig: TEXT" on stderr, in one write. A text without a line end gets one. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same for a failure. Returns EXIT_FAULT, the exit code of every fault of brig's own. */
int say_err(const struct err *e);
/* Say how to get help after wrong usage of a command. Returns EXIT_FAULT. */
int say_usage(const char *command, const struct err *e);

/*
 * The status line: text that stays at the end of a terminal's output until it is replaced or, with
 * NULL, erased; say() erases it first. For a standard error that is a terminal only. below: the cursor
 * is within a line that is not ours, so begin on the next. Never blocks: left out while the terminal
 * takes nothing.
 */
void say_status(const char *text, bool below);

/* Write all n bytes to fd. 0 or -errno. */
int must_check say_raw(int fd, const void *p, size_t n);

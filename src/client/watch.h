#pragma once
/* Doing something again and again, until a signal or the end of output. */
#include "base/err.h"

#include <stdbool.h>

/* The signals that end a command wait from here on, for watch_wait. */
int must_check watch_begin(struct err *e);
/* Sleep: true = once more, false = a signal came or nobody reads standard output. */
bool watch_wait(int ms);
/* On a terminal: what is printed next takes the place of what is there. */
void watch_clear(void);

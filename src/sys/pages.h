#pragma once
/*
 * Pages made by one system call, before their first touch makes each of them. Where the monitor of a
 * virtual machine has a hand in page faults, one takes 13 us, and a page made like this half a
 * microsecond; elsewhere the two are nearer.
 *
 * No more than a hint (madvise(2), MADV_POPULATE_READ and MADV_POPULATE_WRITE): a kernel before Linux 5.14
 * does nothing, and the pages are made when they are touched. By a plain system call (sys/raw.h): no errno.
 */
#include <stddef.h>

/* Those of p[0..n), which must be memory of the process's own that it may write. */
void pages_make(void *p, size_t n);
/* The program's own code. */
void pages_make_code(void);
/* The next n bytes the stack will grow into; at most 64 KiB. */
void pages_make_stack(size_t n);

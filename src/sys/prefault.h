#pragma once
/*
 * Map this program's pages in a few calls instead of one page fault each.
 *
 * A start touches a few hundred known pages of a small static program. On a virtual machine a fault
 * costs up to 30 us where madvise(2) with MADV_POPULATE_READ or _WRITE (Linux >= 5.14) does a page in
 * a fraction of that. Best effort: an older kernel just faults.
 */

/* Text and constants for reading, data and the next pages of the stack for writing. Worth calling first
 * thing after execve, and after fork, which does not copy the mappings of text and makes every written
 * page fault once more. */
void prefault(void);

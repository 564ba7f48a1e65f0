#pragma once
/* Closing what a process got from its maker. */
#include <stddef.h>

/* Close everything but the given descriptors (-1 is passed over), which are sorted here. Raw calls only: nothing of the C
 * library's state is touched. */
void fds_keep_only(int *fds, size_t n);

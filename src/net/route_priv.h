#pragma once
#include <stdbool.h>
#include <stddef.h>

/* Give loopback (interface 1) these addresses and make every address local, with them as source.
 * *ret_v6: the host has IPv6. 0, or -errno with what failed in *why. */
int route_all_here(const char *own4, const char *own6, bool *ret_v6, char *why, size_t size)
    __attribute__((warn_unused_result));

#pragma once
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* Give loopback (interface 1) these addresses and make every address local, with them as source.
 * *ret_v6: the host has IPv6. 0, or -errno with what failed in *why. */
int must_check route_all_here(const char *own4, const char *own6, bool *ret_v6, char *why, size_t size);
/* Give the interface NET_TAP_NAME the gateway's addresses and raise it. 0, or -errno with what failed in *why. */
int must_check route_guest(char *why, size_t size);

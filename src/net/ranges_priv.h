#pragma once
#include "net/net.h"

/* Bytes of its addresses: 4 or 16. */
size_t range_size(const struct net_range *r);
/* The address after a, of n bytes; false when there is none. */
bool range_next(const uint8_t *a, size_t n, uint8_t *ret);
/* Sort in place, IPv4 first, and join what overlaps or touches. The new number. */
uint32_t ranges_join(struct net_range *r, uint32_t n);

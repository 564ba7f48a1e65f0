#pragma once
/*
 * Reports of the packets that the rule set refused: netlink messages of the kernel's with the head of a packet, whose
 * bytes are the sandbox's. Pure.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct drop {
	bool v6;
	uint8_t dst[16]; /* network order; IPv4 in the first four */
	uint8_t proto;   /* IP protocol number */
	uint16_t port;   /* destination port of TCP and UDP, else 0 */
};

/* Read one IP packet's head. -EBADMSG when it is none, or cut before the protocol's ports. */
int must_check drop_parse(const uint8_t *packet, size_t n, struct drop *ret);
/* Find the next packet in one datagram of netlink messages, from *at on. 1 and the packet, or 0 at the end. */
int must_check drop_next(const uint8_t *msg, size_t n, size_t *at, const uint8_t **ret, size_t *ret_n);

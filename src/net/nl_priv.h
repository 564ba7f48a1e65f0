#pragma once
/*
 * Netlink messages for nf_tables, written into a buffer of the caller's (netlink(7),
 * linux/netfilter/nf_tables.h). A full buffer is remembered in `full`, and checked once at the end.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nl {
	uint8_t *p;
	size_t n, cap;
	size_t msg; /* where the open message starts */
	uint32_t seq;
	bool full;
};

void nl_begin(struct nl *b, uint16_t type, uint16_t flags, uint8_t family, uint16_t res_id);
void nl_end(struct nl *b);
size_t nl_nest(struct nl *b, uint16_t type); /* returns what nl_close needs */
void nl_close(struct nl *b, size_t at);
void nl_attr(struct nl *b, uint16_t type, const void *p, size_t n);
void nl_str(struct nl *b, uint16_t type, const char *s);
void nl_be32(struct nl *b, uint16_t type, uint32_t v);
void nl_be64(struct nl *b, uint16_t type, uint64_t v);
void nl_u8(struct nl *b, uint16_t type, uint8_t v);

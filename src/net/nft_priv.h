#pragma once
/*
 * The vocabulary of nf_tables rules, in the words of nft(8), written as netlink messages
 * (linux/netfilter/nf_tables.h). Everything belongs to the one table of the sandbox's. Pure.
 */
#include "net/net.h"
#include "net/nl_priv.h"

#include <stdint.h>

/* ---- nft.c: what rules stand in ---- */
void nft_batch_begin(struct nl *b); /* and the table */
void nft_batch_end(struct nl *b);
/* The same batch for a namespace that has the table already, which goes in the same step: its size in out, 0 = no room. */
size_t nft_again(const uint8_t *batch, size_t n, uint8_t *out, size_t size);
/* `type` is "filter" or "nat"; hook and priority as linux/netfilter.h has them. Its policy is accept. */
void nft_chain(struct nl *b, const char *name, const char *type, uint32_t hook, int32_t priority);
/* An interval set of the addresses of one family among r, sorted and joined, named "to4" or "to6". */
void nft_set(struct nl *b, bool v6, const struct net_range *r, uint32_t n);
size_t nft_rule(struct nl *b, const char *chain); /* returns what nft_rule_end needs */
void nft_rule_end(struct nl *b, size_t at);

/* ---- nft_expr.c: what a rule says; each part that does not hold ends it ---- */
void nft_if_family(struct nl *b, uint8_t nfproto); /* meta nfproto X */
void nft_if_not_family(struct nl *b, uint8_t nfproto);
void nft_if_proto(struct nl *b, uint8_t proto); /* meta l4proto X */
void nft_if_from(struct nl *b, const char *interface); /* iifname X */
void nft_if_not_saddr4(struct nl *b, const uint8_t *addr);
void nft_if_daddr(struct nl *b, uint8_t nfproto, const void *addr, uint32_t n); /* its first n bytes */
void nft_if_dport(struct nl *b, uint8_t nfproto, uint8_t proto, uint16_t port);
void nft_if_in_set(struct nl *b, bool v6); /* daddr @to4 or @to6 */
void nft_if_transparent(struct nl *b); /* socket transparent 1 */
void nft_limit(struct nl *b, uint32_t per_s);
void nft_log(struct nl *b, uint16_t group, uint32_t snaplen);
void nft_verdict(struct nl *b, uint32_t code); /* NF_ACCEPT, NF_DROP */
void nft_tproxy(struct nl *b, uint8_t nfproto, uint16_t port);
void nft_redirect(struct nl *b, uint16_t port);
void nft_reject(struct nl *b, uint32_t type, uint8_t code);

#include "net/net.h"
#include "net/nft_priv.h"

#include "base/num.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

/*
 * The rule set as one netlink batch, which the kernel takes as a whole or not at all. In words of nft(8):
 *
 *  table inet gate {
 *   set to4 { type ipv4_addr; flags interval; elements = { ... } }
 *   set to6 { type ipv6_addr; flags interval; elements = { ... } }
 *   chain pre { type filter hook prerouting priority -150; policy accept;
 *    iifname "tap0" meta nfproto != ipv4 drop                         # a guest only: IPv4, and
 *    iifname "tap0" ip saddr != GUEST limit ... log group 5           # from one address
 *    iifname "tap0" ip saddr != GUEST drop
 *    ip daddr 127.0.0.0/8 accept ; ip daddr OWN accept                # container only: own addresses
 *    ip6 daddr ::1 accept ; ip6 daddr OWN6 accept
 *    socket transparent 1 accept                                      # what belongs to the gate's connections
 *    meta nfproto ipv4 udp dport 53 tproxy ip to :53 accept           # also for resolvers given by address
 *    meta nfproto ipv4 tcp dport 53 tproxy ip to :99 accept
 *    ip daddr @to4 meta l4proto tcp tproxy ip to :99 accept
 *    ip6 daddr @to6 meta l4proto tcp tproxy ip6 to :99 accept
 *    limit rate 200/second burst 200 packets log group 5 snaplen 96
 *    meta l4proto tcp reject with tcp reset
 *    reject with icmpx type admin-prohibited
 *   }
 *  }
 *
 * No address is translated and nothing is tracked. Rejecting in prerouting is what makes a refused
 * connection fail at once: on the way out over loopback the kernel swallows the ICMP error.
 */

static const char table[] = "gate", chain[] = "pre";
enum { TO4 = 1, TO6 = 2, ALL = NFPROTO_INET };
enum { TYPE_IPV4 = 7, TYPE_IPV6 = 8 }; /* nft(8)'s numbers for the types of a set */
#define MSG(x) ((uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | (x)))

/* ---- ranges: sorted, joined ---- */

static size_t size_of(const struct net_range *r) { return r->v6 ? 16 : 4; }

static int by_first(const void *a, const void *b)
{
	const struct net_range *x = (const struct net_range *)a, *y = (const struct net_range *)b;

	if (x->v6 != y->v6)
		return x->v6 ? 1 : -1;
	return memcmp(x->first, y->first, size_of(x));
}

/* The address after; false when there is none. */
static bool next_addr(const uint8_t *a, size_t n, uint8_t *ret)
{
	memcpy(ret, a, n);
	while (n > 0)
		if (++ret[--n] != 0)
			return true;
	return false;
}

static uint32_t join(struct net_range *r, uint32_t n)
{
	uint32_t out = 0;

	if (n > 0)
		qsort(r, n, sizeof(*r), by_first);
	for (uint32_t i = 0; i < n; i++) {
		struct net_range *last = out > 0 ? &r[out - 1] : NULL;
		uint8_t after[16];

		if (last != NULL && last->v6 == r[i].v6 &&
		    (!next_addr(last->last, size_of(last), after) ||
		     memcmp(r[i].first, after, size_of(last)) <= 0)) {
			if (memcmp(r[i].last, last->last, size_of(last)) > 0)
				memcpy(last->last, r[i].last, sizeof(last->last));
		} else {
			r[out++] = r[i];
		}
	}
	return out;
}

/* ---- sets ---- */

static void new_set(struct nl *b, const char *name, uint32_t id, uint32_t type, uint32_t len)
{
	nl_begin(b, MSG(NFT_MSG_NEWSET), NLM_F_REQUEST | NLM_F_CREATE, ALL, 0);
	nl_str(b, NFTA_SET_TABLE, table);
	nl_str(b, NFTA_SET_NAME, name);
	nl_be32(b, NFTA_SET_FLAGS, NFT_SET_INTERVAL);
	nl_be32(b, NFTA_SET_KEY_TYPE, type);
	nl_be32(b, NFTA_SET_KEY_LEN, len);
	nl_be32(b, NFTA_SET_ID, id);
	nl_end(b);
}

static void element(struct nl *b, const uint8_t *key, size_t n, bool end)
{
	size_t elem = nl_nest(b, NFTA_LIST_ELEM), k;

	if (end)
		nl_be32(b, NFTA_SET_ELEM_FLAGS, NFT_SET_ELEM_INTERVAL_END);
	k = nl_nest(b, NFTA_SET_ELEM_KEY);
	nl_attr(b, NFTA_DATA_VALUE, key, n);
	nl_close(b, k);
	nl_close(b, elem);
}

static void elements(struct nl *b, const char *name, uint32_t id, bool v6, const struct net_range *r, uint32_t n)
{
	uint8_t after[16];
	bool any = false;
	size_t list = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (r[i].v6 != v6)
			continue;
		if (!any) {
			nl_begin(b, MSG(NFT_MSG_NEWSETELEM), NLM_F_REQUEST | NLM_F_CREATE, ALL, 0);
			nl_str(b, NFTA_SET_ELEM_LIST_TABLE, table);
			nl_str(b, NFTA_SET_ELEM_LIST_SET, name);
			nl_be32(b, NFTA_SET_ELEM_LIST_SET_ID, id);
			list = nl_nest(b, NFTA_SET_ELEM_LIST_ELEMENTS);
			any = true;
		}
		element(b, r[i].first, size_of(&r[i]), false);
		if (next_addr(r[i].last, size_of(&r[i]), after))
			element(b, after, size_of(&r[i]), true);
	}
	if (any) {
		nl_close(b, list);
		nl_end(b);
	}
}

/* ---- expressions: each is { name, data } in the open rule ---- */

struct expr {
	size_t elem, data;
};

static struct expr expr(struct nl *b, const char *name)
{
	struct expr x = {.elem = nl_nest(b, NFTA_LIST_ELEM)};

	nl_str(b, NFTA_EXPR_NAME, name);
	x.data = nl_nest(b, NFTA_EXPR_DATA);
	return x;
}

static void expr_end(struct nl *b, struct expr x)
{
	nl_close(b, x.data);
	nl_close(b, x.elem);
}

static void value(struct nl *b, uint16_t type, const void *p, size_t n)
{
	size_t at = nl_nest(b, type);

	nl_attr(b, NFTA_DATA_VALUE, p, n);
	nl_close(b, at);
}

static void meta(struct nl *b, uint32_t key)
{
	struct expr x = expr(b, "meta");

	nl_be32(b, NFTA_META_KEY, key);
	nl_be32(b, NFTA_META_DREG, NFT_REG_1);
	expr_end(b, x);
}

static void payload(struct nl *b, uint32_t base, uint32_t off, uint32_t len)
{
	struct expr x = expr(b, "payload");

	nl_be32(b, NFTA_PAYLOAD_DREG, NFT_REG_1);
	nl_be32(b, NFTA_PAYLOAD_BASE, base);
	nl_be32(b, NFTA_PAYLOAD_OFFSET, off);
	nl_be32(b, NFTA_PAYLOAD_LEN, len);
	expr_end(b, x);
}

static void cmp(struct nl *b, uint32_t op, const void *p, size_t n)
{
	struct expr x = expr(b, "cmp");

	nl_be32(b, NFTA_CMP_SREG, NFT_REG_1);
	nl_be32(b, NFTA_CMP_OP, op);
	value(b, NFTA_CMP_DATA, p, n);
	expr_end(b, x);
}

static void lookup(struct nl *b, const char *set, uint32_t id)
{
	struct expr x = expr(b, "lookup");

	nl_str(b, NFTA_LOOKUP_SET, set);
	nl_be32(b, NFTA_LOOKUP_SREG, NFT_REG_1);
	nl_be32(b, NFTA_LOOKUP_SET_ID, id);
	expr_end(b, x);
}

static void verdict(struct nl *b, uint32_t code)
{
	struct expr x = expr(b, "immediate");
	size_t data, v;

	nl_be32(b, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
	data = nl_nest(b, NFTA_IMMEDIATE_DATA);
	v = nl_nest(b, NFTA_DATA_VERDICT);
	nl_be32(b, NFTA_VERDICT_CODE, code);
	nl_close(b, v);
	nl_close(b, data);
	expr_end(b, x);
}

static void tproxy(struct nl *b, uint32_t family, uint16_t port)
{
	uint16_t be = htons(port);
	struct expr x = expr(b, "immediate");

	nl_be32(b, NFTA_IMMEDIATE_DREG, NFT_REG_1);
	value(b, NFTA_IMMEDIATE_DATA, &be, sizeof(be));
	expr_end(b, x);
	x = expr(b, "tproxy");
	nl_be32(b, NFTA_TPROXY_FAMILY, family);
	nl_be32(b, NFTA_TPROXY_REG_PORT, NFT_REG_1);
	expr_end(b, x);
}

static void is_transparent(struct nl *b)
{
	struct expr x = expr(b, "socket");
	uint8_t one = 1;

	nl_be32(b, NFTA_SOCKET_KEY, NFT_SOCKET_TRANSPARENT);
	nl_be32(b, NFTA_SOCKET_DREG, NFT_REG_1);
	expr_end(b, x);
	cmp(b, NFT_CMP_EQ, &one, sizeof(one));
}

static void copy_out(struct nl *b)
{
	struct expr x = expr(b, "limit");

	nl_be64(b, NFTA_LIMIT_RATE, NET_DROPS_PER_S);
	nl_be64(b, NFTA_LIMIT_UNIT, 1);
	nl_be32(b, NFTA_LIMIT_BURST, NET_DROPS_PER_S);
	nl_be32(b, NFTA_LIMIT_TYPE, NFT_LIMIT_PKTS);
	nl_be32(b, NFTA_LIMIT_FLAGS, 0);
	expr_end(b, x);
	x = expr(b, "log");
	{
		uint16_t group = htons(NET_DROPS_GROUP);

		nl_attr(b, NFTA_LOG_GROUP, &group, sizeof(group));
	}
	nl_be32(b, NFTA_LOG_SNAPLEN, NET_DROPS_SNAP);
	expr_end(b, x);
}

static void reject(struct nl *b, uint32_t type, uint8_t code)
{
	struct expr x = expr(b, "reject");

	nl_be32(b, NFTA_REJECT_TYPE, type);
	nl_u8(b, NFTA_REJECT_ICMP_CODE, code);
	expr_end(b, x);
}

/* ---- common matches ---- */

static void is_u8(struct nl *b, uint32_t key, uint8_t v, uint32_t op)
{
	meta(b, key);
	cmp(b, op, &v, sizeof(v));
}

static void is_family(struct nl *b, uint8_t family) { is_u8(b, NFT_META_NFPROTO, family, NFT_CMP_EQ); }
static void is_proto(struct nl *b, uint8_t proto) { is_u8(b, NFT_META_L4PROTO, proto, NFT_CMP_EQ); }

static void from_tap(struct nl *b)
{
	char name[16] = "tap0";

	meta(b, NFT_META_IIFNAME);
	cmp(b, NFT_CMP_EQ, name, sizeof(name));
}

static void to_addr(struct nl *b, uint8_t family, const void *addr, uint32_t n)
{
	is_family(b, family);
	payload(b, NFT_PAYLOAD_NETWORK_HEADER, family == NFPROTO_IPV4 ? 16 : 24, n);
	cmp(b, NFT_CMP_EQ, addr, n);
}

static void to_dns(struct nl *b, uint8_t proto, uint16_t listener)
{
	uint16_t port = htons(53);

	is_family(b, NFPROTO_IPV4);
	is_proto(b, proto);
	payload(b, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2);
	cmp(b, NFT_CMP_EQ, &port, sizeof(port));
	tproxy(b, NFPROTO_IPV4, listener);
	verdict(b, NF_ACCEPT);
}

static void to_set(struct nl *b, uint8_t family, const char *set, uint32_t id)
{
	is_family(b, family);
	if (family == NFPROTO_IPV4)
		payload(b, NFT_PAYLOAD_NETWORK_HEADER, 16, 4);
	else
		payload(b, NFT_PAYLOAD_NETWORK_HEADER, 24, 16);
	lookup(b, set, id);
	is_proto(b, IPPROTO_TCP);
	tproxy(b, family, NET_TCP_PORT);
	verdict(b, NF_ACCEPT);
}

/* ---- rules ---- */

static size_t rule(struct nl *b)
{
	nl_begin(b, MSG(NFT_MSG_NEWRULE), NLM_F_REQUEST | NLM_F_CREATE | NLM_F_APPEND, ALL, 0);
	nl_str(b, NFTA_RULE_TABLE, table);
	nl_str(b, NFTA_RULE_CHAIN, chain);
	return nl_nest(b, NFTA_RULE_EXPRESSIONS);
}

static void rule_end(struct nl *b, size_t at)
{
	nl_close(b, at);
	nl_end(b);
}

static void not_from_guest(struct nl *b, const uint8_t *guest4)
{
	from_tap(b);
	is_family(b, NFPROTO_IPV4);
	payload(b, NFT_PAYLOAD_NETWORK_HEADER, 12, 4);
	cmp(b, NFT_CMP_NEQ, guest4, 4);
}

static void guest_rules(struct nl *b, const uint8_t *guest4)
{
	size_t r = rule(b);

	from_tap(b);
	is_u8(b, NFT_META_NFPROTO, NFPROTO_IPV4, NFT_CMP_NEQ);
	verdict(b, NF_DROP);
	rule_end(b, r);
	r = rule(b);
	not_from_guest(b, guest4);
	copy_out(b);
	rule_end(b, r);
	r = rule(b);
	not_from_guest(b, guest4);
	verdict(b, NF_DROP);
	rule_end(b, r);
}

static void accept_to(struct nl *b, uint8_t family, const char *text)
{
	uint8_t a[16];
	size_t r = rule(b);

	(void)inet_pton(family == NFPROTO_IPV4 ? AF_INET : AF_INET6, text, a);
	to_addr(b, family, a, family == NFPROTO_IPV4 ? 4 : 16);
	verdict(b, NF_ACCEPT);
	rule_end(b, r);
}

static void own_rules(struct nl *b)
{
	uint8_t lo = 127;
	size_t r = rule(b);

	to_addr(b, NFPROTO_IPV4, &lo, sizeof(lo));
	verdict(b, NF_ACCEPT);
	rule_end(b, r);
	accept_to(b, NFPROTO_IPV4, NET_OWN4_TEXT);
	accept_to(b, NFPROTO_IPV6, "::1");
	accept_to(b, NFPROTO_IPV6, NET_OWN6_TEXT);
}

static void gate_rules(struct nl *b)
{
	size_t r = rule(b);

	is_transparent(b);
	verdict(b, NF_ACCEPT);
	rule_end(b, r);
	r = rule(b);
	to_dns(b, IPPROTO_UDP, 53);
	rule_end(b, r);
	r = rule(b);
	to_dns(b, IPPROTO_TCP, NET_TCP_PORT);
	rule_end(b, r);
	r = rule(b);
	to_set(b, NFPROTO_IPV4, "to4", TO4);
	rule_end(b, r);
	r = rule(b);
	to_set(b, NFPROTO_IPV6, "to6", TO6);
	rule_end(b, r);
}

static void refusing_rules(struct nl *b)
{
	size_t r = rule(b);

	copy_out(b);
	rule_end(b, r);
	r = rule(b);
	is_proto(b, IPPROTO_TCP);
	reject(b, NFT_REJECT_TCP_RST, 0);
	rule_end(b, r);
	r = rule(b);
	reject(b, NFT_REJECT_ICMPX_UNREACH, NFT_REJECT_ICMPX_ADMIN_PROHIBITED);
	rule_end(b, r);
}

static void new_chain(struct nl *b)
{
	size_t hook;

	nl_begin(b, MSG(NFT_MSG_NEWCHAIN), NLM_F_REQUEST | NLM_F_CREATE, ALL, 0);
	nl_str(b, NFTA_CHAIN_TABLE, table);
	nl_str(b, NFTA_CHAIN_NAME, chain);
	hook = nl_nest(b, NFTA_CHAIN_HOOK);
	nl_be32(b, NFTA_HOOK_HOOKNUM, NF_INET_PRE_ROUTING);
	nl_be32(b, NFTA_HOOK_PRIORITY, (uint32_t)-150);
	nl_close(b, hook);
	nl_be32(b, NFTA_CHAIN_POLICY, NF_ACCEPT);
	nl_str(b, NFTA_CHAIN_TYPE, "filter");
	nl_end(b);
}

int net_plan_gate(struct net_plan *p, struct net_range *r, uint32_t n, const uint8_t *guest4)
{
	struct nl b = {.p = p->batch, .cap = sizeof(p->batch)};

	if (n > NET_RANGES_MAX)
		return -E2BIG;
	n = join(r, n);
	p->tap = guest4 != NULL;
	nl_begin(&b, NFNL_MSG_BATCH_BEGIN, NLM_F_REQUEST, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
	nl_end(&b);
	nl_begin(&b, MSG(NFT_MSG_NEWTABLE), NLM_F_REQUEST | NLM_F_CREATE, ALL, 0);
	nl_str(&b, NFTA_TABLE_NAME, table);
	nl_end(&b);
	new_set(&b, "to4", TO4, TYPE_IPV4, 4);
	new_set(&b, "to6", TO6, TYPE_IPV6, 16);
	elements(&b, "to4", TO4, false, r, n);
	elements(&b, "to6", TO6, true, r, n);
	new_chain(&b);
	if (guest4 != NULL)
		guest_rules(&b, guest4);
	else
		own_rules(&b);
	gate_rules(&b);
	refusing_rules(&b);
	/* one that changes nothing, for the acknowledgement of the last: the batch's own end has none */
	nl_begin(&b, MSG(NFT_MSG_NEWTABLE), NLM_F_REQUEST | NLM_F_ACK, ALL, 0);
	nl_str(&b, NFTA_TABLE_NAME, table);
	nl_end(&b);
	nl_begin(&b, NFNL_MSG_BATCH_END, NLM_F_REQUEST, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
	nl_end(&b);
	p->batch_n = b.n;
	return b.full ? -E2BIG : 0;
}

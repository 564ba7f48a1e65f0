#include "net/nft_priv.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <netinet/in.h>
#include <stdio.h>

/* What a rule says: expressions, each { name, data } in the open rule, that hand values on in
 * register 1. */

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

/* ---- matches ---- */

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

static void meta_u8(struct nl *b, uint32_t key, uint8_t v, uint32_t op)
{
	meta(b, key);
	cmp(b, op, &v, sizeof(v));
}

void nft_if_family(struct nl *b, uint8_t nfproto)
{
	meta_u8(b, NFT_META_NFPROTO, nfproto, NFT_CMP_EQ);
}
void nft_if_not_family(struct nl *b, uint8_t nfproto)
{
	meta_u8(b, NFT_META_NFPROTO, nfproto, NFT_CMP_NEQ);
}
void nft_if_proto(struct nl *b, uint8_t proto) { meta_u8(b, NFT_META_L4PROTO, proto, NFT_CMP_EQ); }

void nft_if_from(struct nl *b, const char *interface)
{
	char name[16] = "";

	(void)snprintf(name, sizeof(name), "%s", interface);
	meta(b, NFT_META_IIFNAME);
	cmp(b, NFT_CMP_EQ, name, sizeof(name));
}

void nft_if_not_saddr4(struct nl *b, const uint8_t *addr)
{
	nft_if_family(b, NFPROTO_IPV4);
	payload(b, NFT_PAYLOAD_NETWORK_HEADER, 12, 4);
	cmp(b, NFT_CMP_NEQ, addr, 4);
}

static uint32_t daddr_at(uint8_t nfproto) { return nfproto == NFPROTO_IPV4 ? 16 : 24; }

void nft_if_daddr(struct nl *b, uint8_t nfproto, const void *addr, uint32_t n)
{
	nft_if_family(b, nfproto);
	payload(b, NFT_PAYLOAD_NETWORK_HEADER, daddr_at(nfproto), n);
	cmp(b, NFT_CMP_EQ, addr, n);
}

void nft_if_dport(struct nl *b, uint8_t nfproto, uint8_t proto, uint16_t port)
{
	uint16_t be = htons(port);

	nft_if_family(b, nfproto);
	nft_if_proto(b, proto);
	payload(b, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2);
	cmp(b, NFT_CMP_EQ, &be, sizeof(be));
}

void nft_if_in_set(struct nl *b, bool v6)
{
	struct expr x;

	nft_if_family(b, v6 ? NFPROTO_IPV6 : NFPROTO_IPV4);
	payload(b, NFT_PAYLOAD_NETWORK_HEADER, daddr_at(v6 ? NFPROTO_IPV6 : NFPROTO_IPV4),
		v6 ? 16 : 4);
	x = expr(b, "lookup");
	nl_str(b, NFTA_LOOKUP_SET, v6 ? "to6" : "to4");
	nl_be32(b, NFTA_LOOKUP_SREG, NFT_REG_1);
	nl_be32(b, NFTA_LOOKUP_SET_ID, v6 ? 2 : 1);
	expr_end(b, x);
}

void nft_if_transparent(struct nl *b)
{
	struct expr x = expr(b, "socket");
	uint8_t one = 1;

	nl_be32(b, NFTA_SOCKET_KEY, NFT_SOCKET_TRANSPARENT);
	nl_be32(b, NFTA_SOCKET_DREG, NFT_REG_1);
	expr_end(b, x);
	cmp(b, NFT_CMP_EQ, &one, sizeof(one));
}

void nft_limit(struct nl *b, uint32_t per_s)
{
	struct expr x = expr(b, "limit");

	nl_be64(b, NFTA_LIMIT_RATE, per_s);
	nl_be64(b, NFTA_LIMIT_UNIT, 1);
	nl_be32(b, NFTA_LIMIT_BURST, per_s);
	nl_be32(b, NFTA_LIMIT_TYPE, NFT_LIMIT_PKTS);
	nl_be32(b, NFTA_LIMIT_FLAGS, 0);
	expr_end(b, x);
}

/* ---- what happens then ---- */

void nft_log(struct nl *b, uint16_t group, uint32_t snaplen)
{
	struct expr x = expr(b, "log");
	uint16_t be = htons(group);

	nl_attr(b, NFTA_LOG_GROUP, &be, sizeof(be));
	nl_be32(b, NFTA_LOG_SNAPLEN, snaplen);
	expr_end(b, x);
}

void nft_verdict(struct nl *b, uint32_t code)
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

static void load_port(struct nl *b, uint16_t port)
{
	struct expr x = expr(b, "immediate");
	uint16_t be = htons(port);

	nl_be32(b, NFTA_IMMEDIATE_DREG, NFT_REG_1);
	value(b, NFTA_IMMEDIATE_DATA, &be, sizeof(be));
	expr_end(b, x);
}

void nft_tproxy(struct nl *b, uint8_t nfproto, uint16_t port)
{
	struct expr x;

	load_port(b, port);
	x = expr(b, "tproxy");
	nl_be32(b, NFTA_TPROXY_FAMILY, nfproto);
	nl_be32(b, NFTA_TPROXY_REG_PORT, NFT_REG_1);
	expr_end(b, x);
}

void nft_redirect(struct nl *b, uint16_t port)
{
	struct expr x;

	load_port(b, port);
	x = expr(b, "redir");
	nl_be32(b, NFTA_REDIR_REG_PROTO_MIN, NFT_REG_1);
	expr_end(b, x);
}

void nft_reject(struct nl *b, uint32_t type, uint8_t code)
{
	struct expr x = expr(b, "reject");

	nl_be32(b, NFTA_REJECT_TYPE, type);
	nl_u8(b, NFTA_REJECT_ICMP_CODE, code);
	expr_end(b, x);
}

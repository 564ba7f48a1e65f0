#include "net/nft_priv.h"
#include "net/ranges_priv.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>

/*
 * What rules stand in: the batch, which the kernel takes as a whole or not at all, its one table,
 * chains and sets.
 */

static const char table[] = "gate";
enum { ALL = NFPROTO_INET };
enum { TYPE_IPV4 = 7, TYPE_IPV6 = 8 }; /* nft(8)'s numbers for the types of a set */
#define MSG(x) ((uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | (x)))

static const char *set_name(bool v6) { return v6 ? "to6" : "to4"; }
static uint32_t set_id(bool v6) { return v6 ? 2 : 1; }

void nft_batch_begin(struct nl *b)
{
	nl_begin(b, NFNL_MSG_BATCH_BEGIN, NLM_F_REQUEST, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
	nl_end(b);
	nl_begin(b, MSG(NFT_MSG_NEWTABLE), NLM_F_REQUEST | NLM_F_CREATE, ALL, 0);
	nl_str(b, NFTA_TABLE_NAME, table);
	nl_end(b);
}

void nft_batch_end(struct nl *b)
{
	/* one that changes nothing, for the acknowledgement of the last: the batch's own end has
	 * none */
	nl_begin(b, MSG(NFT_MSG_NEWTABLE), NLM_F_REQUEST | NLM_F_ACK, ALL, 0);
	nl_str(b, NFTA_TABLE_NAME, table);
	nl_end(b);
	nl_begin(b, NFNL_MSG_BATCH_END, NLM_F_REQUEST, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
	nl_end(b);
}

size_t nft_again(const uint8_t *batch, size_t n, uint8_t *out, size_t size)
{
	struct nl b = {.p = out, .cap = size};
	struct nlmsghdr first;

	memcpy(&first, batch, sizeof(first)); /* the batch's beginning */
	nft_batch_begin(&b);
	nl_begin(&b, MSG(NFT_MSG_DELTABLE), NLM_F_REQUEST, ALL, 0);
	nl_str(&b, NFTA_TABLE_NAME, table);
	nl_end(&b);
	if (b.full || n - first.nlmsg_len > size - b.n)
		return 0;
	memcpy(out + b.n, batch + first.nlmsg_len, n - first.nlmsg_len);
	return b.n + n - first.nlmsg_len;
}

void nft_chain(struct nl *b, const char *name, const char *type, uint32_t hook, int32_t priority)
{
	size_t at;

	nl_begin(b, MSG(NFT_MSG_NEWCHAIN), NLM_F_REQUEST | NLM_F_CREATE, ALL, 0);
	nl_str(b, NFTA_CHAIN_TABLE, table);
	nl_str(b, NFTA_CHAIN_NAME, name);
	at = nl_nest(b, NFTA_CHAIN_HOOK);
	nl_be32(b, NFTA_HOOK_HOOKNUM, hook);
	nl_be32(b, NFTA_HOOK_PRIORITY, (uint32_t)priority);
	nl_close(b, at);
	nl_be32(b, NFTA_CHAIN_POLICY, NF_ACCEPT);
	nl_str(b, NFTA_CHAIN_TYPE, type);
	nl_end(b);
}

/* ---- sets ---- */

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

static void elements(struct nl *b, bool v6, const struct net_range *r, uint32_t n)
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
			nl_str(b, NFTA_SET_ELEM_LIST_SET, set_name(v6));
			nl_be32(b, NFTA_SET_ELEM_LIST_SET_ID, set_id(v6));
			list = nl_nest(b, NFTA_SET_ELEM_LIST_ELEMENTS);
			any = true;
		}
		element(b, r[i].first, range_size(&r[i]), false);
		if (range_next(r[i].last, range_size(&r[i]), after))
			element(b, after, range_size(&r[i]), true);
	}
	if (any) {
		nl_close(b, list);
		nl_end(b);
	}
}

void nft_set(struct nl *b, bool v6, const struct net_range *r, uint32_t n)
{
	nl_begin(b, MSG(NFT_MSG_NEWSET), NLM_F_REQUEST | NLM_F_CREATE, ALL, 0);
	nl_str(b, NFTA_SET_TABLE, table);
	nl_str(b, NFTA_SET_NAME, set_name(v6));
	nl_be32(b, NFTA_SET_FLAGS, NFT_SET_INTERVAL);
	nl_be32(b, NFTA_SET_KEY_TYPE, v6 ? TYPE_IPV6 : TYPE_IPV4);
	nl_be32(b, NFTA_SET_KEY_LEN, v6 ? 16 : 4);
	nl_be32(b, NFTA_SET_ID, set_id(v6));
	nl_end(b);
	elements(b, v6, r, n);
}

/* ---- rules ---- */

size_t nft_rule(struct nl *b, const char *chain)
{
	nl_begin(b, MSG(NFT_MSG_NEWRULE), NLM_F_REQUEST | NLM_F_CREATE | NLM_F_APPEND, ALL, 0);
	nl_str(b, NFTA_RULE_TABLE, table);
	nl_str(b, NFTA_RULE_CHAIN, chain);
	return nl_nest(b, NFTA_RULE_EXPRESSIONS);
}

void nft_rule_end(struct nl *b, size_t at)
{
	nl_close(b, at);
	nl_end(b);
}

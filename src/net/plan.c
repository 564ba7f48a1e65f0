#include "net/net.h"
#include "net/nft_priv.h"
#include "net/ranges_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <netinet/in.h>

/*
 * The rule set. Two ways lead what may be asked for to the listeners; what they refuse is the same.
 *
 *  table inet gate {
 *   set to4 { type ipv4_addr; flags interval; elements = { ... } }
 *   set to6 { type ipv6_addr; flags interval; elements = { ... } }
 *
 * NET_TPROXY: no address is translated, nothing is tracked.
 *
 *   chain pre { type filter hook prerouting priority -150; policy accept;
 *    iifname "tap0" meta nfproto != ipv4 drop                         # a guest only: IPv4, and
 *    iifname "tap0" ip saddr != GUEST limit ... log group 5           # from one address
 *    iifname "tap0" ip saddr != GUEST drop
 *    ip daddr 127.0.0.0/8 accept ; ip daddr OWN accept                # container only: own
 * addresses ip6 daddr ::1 accept ; ip6 daddr OWN6 accept socket transparent 1 accept # what belongs
 * to the gate's connections meta nfproto ipv4 udp dport 53 tproxy ip to :53 accept           # also
 * for resolvers given by address meta nfproto ipv4 tcp dport 53 tproxy ip to :99 accept ip daddr
 * @to4 meta l4proto tcp tproxy ip to :99 accept ip6 daddr @to6 meta l4proto tcp tproxy ip6 to :99
 * accept limit rate 200/second burst 200 packets log group 5 snaplen 96 meta l4proto tcp reject
 * with tcp reset reject with icmpx type admin-prohibited
 *   }
 *
 * NET_REDIRECT, where the kernel has no tproxy: the same destinations are changed before a packet
 * leaves (a guest's: when it comes in), so that it arrives for one of the own addresses.
 *
 *   chain way { type nat hook output priority -100; policy accept;     # a guest: hook prerouting
 *    (own addresses accept)
 *    meta nfproto ipv4 udp dport 53 redirect to :53 ; ... tcp dport 53 redirect to :99
 *    ip daddr @to4 meta l4proto tcp redirect to :99 ; ip6 daddr @to6 ...
 *   }
 *   chain pre: the same without `socket` and with `accept` alone for a guest; nothing in their
 * place for others
 *
 * Rejecting in prerouting is what makes a refused connection fail at once: on the way out over
 * loopback the kernel swallows the ICMP error.
 */

enum action { BY_TPROXY, BY_REDIRECT, ACCEPTED };

static const char pre[] = "pre", way[] = "way";

static void report(struct nl *b)
{
	nft_limit(b, NET_DROPS_PER_S);
	nft_log(b, NET_DROPS_GROUP, NET_DROPS_SNAP);
}

static void not_the_guest(struct nl *b, const uint8_t *guest4)
{
	nft_if_from(b, NET_TAP_NAME);
	nft_if_not_saddr4(b, guest4);
}

static void guest_rules(struct nl *b, const uint8_t *guest4)
{
	size_t r = nft_rule(b, pre);

	nft_if_from(b, NET_TAP_NAME);
	nft_if_not_family(b, NFPROTO_IPV4);
	nft_verdict(b, NF_DROP);
	nft_rule_end(b, r);
	r = nft_rule(b, pre);
	not_the_guest(b, guest4);
	report(b);
	nft_rule_end(b, r);
	r = nft_rule(b, pre);
	not_the_guest(b, guest4);
	nft_verdict(b, NF_DROP);
	nft_rule_end(b, r);
}

static void accept_to(struct nl *b, const char *chain, uint8_t nfproto, const void *addr,
		      uint32_t n)
{
	size_t r = nft_rule(b, chain);

	nft_if_daddr(b, nfproto, addr, n);
	nft_verdict(b, NF_ACCEPT);
	nft_rule_end(b, r);
}

static void own_rules(struct nl *b, const char *chain)
{
	static const uint8_t lo4 = 127, lo6[16] = {[15] = 1};
	uint8_t own4[4], own6[16];

	(void)inet_pton(AF_INET, NET_OWN4_TEXT, own4);
	(void)inet_pton(AF_INET6, NET_OWN6_TEXT, own6);
	accept_to(b, chain, NFPROTO_IPV4, &lo4, sizeof(lo4));
	accept_to(b, chain, NFPROTO_IPV4, own4, sizeof(own4));
	accept_to(b, chain, NFPROTO_IPV6, lo6, sizeof(lo6));
	accept_to(b, chain, NFPROTO_IPV6, own6, sizeof(own6));
}

static void lead(struct nl *b, enum action a, uint8_t nfproto, uint16_t port)
{
	switch (a) {
	case BY_TPROXY:
		nft_tproxy(b, nfproto, port);
		nft_verdict(b, NF_ACCEPT);
		break;
	case BY_REDIRECT:
		nft_redirect(b, port);
		break;
	case ACCEPTED:
		nft_verdict(b, NF_ACCEPT);
		break;
	}
}

static void lead_dns(struct nl *b, const char *chain, enum action a, uint8_t proto,
		     uint16_t listener)
{
	size_t r = nft_rule(b, chain);

	nft_if_dport(b, NFPROTO_IPV4, proto, 53);
	lead(b, a, NFPROTO_IPV4, listener);
	nft_rule_end(b, r);
}

static void lead_set(struct nl *b, const char *chain, enum action a, bool v6)
{
	size_t r = nft_rule(b, chain);

	nft_if_in_set(b, v6);
	nft_if_proto(b, IPPROTO_TCP);
	lead(b, a, v6 ? NFPROTO_IPV6 : NFPROTO_IPV4, NET_TCP_PORT);
	nft_rule_end(b, r);
}

/* v6: some IPv6 address may be asked for. Else the rule would match nothing, and cost the hooks that tproxy brings along. */
static void leading_rules(struct nl *b, const char *chain, enum action a, bool v6)
{
	size_t r;

	if (a == BY_TPROXY) {
		r = nft_rule(b, chain);
		nft_if_transparent(b);
		nft_verdict(b, NF_ACCEPT);
		nft_rule_end(b, r);
	}
	lead_dns(b, chain, a, IPPROTO_UDP, 53);
	lead_dns(b, chain, a, IPPROTO_TCP, NET_TCP_PORT);
	lead_set(b, chain, a, false);
	if (v6)
		lead_set(b, chain, a, true);
}

static void refusing_rules(struct nl *b)
{
	size_t r = nft_rule(b, pre);

	report(b);
	nft_rule_end(b, r);
	r = nft_rule(b, pre);
	nft_if_proto(b, IPPROTO_TCP);
	nft_reject(b, NFT_REJECT_TCP_RST, 0);
	nft_rule_end(b, r);
	r = nft_rule(b, pre);
	nft_reject(b, NFT_REJECT_ICMPX_UNREACH, NFT_REJECT_ICMPX_ADMIN_PROHIBITED);
	nft_rule_end(b, r);
}

static void redirecting_chain(struct nl *b, bool guest, bool v6)
{
	nft_chain(b, way, "nat", guest ? NF_INET_PRE_ROUTING : NF_INET_LOCAL_OUT, -100);
	if (!guest)
		own_rules(b, way);
	leading_rules(b, way, BY_REDIRECT, v6);
}

static int write_way(struct net_plan *p, enum net_way w, const struct net_range *r, uint32_t n,
		     const uint8_t *guest4)
{
	struct nl b = {.p = p->batch[w], .cap = sizeof(p->batch[w])};
	bool v6 = n > 0 && r[n - 1].v6; /* sorted: IPv4 is before IPv6 */

	nft_batch_begin(&b);
	nft_set(&b, false, r, n);
	nft_set(&b, true, r, n);
	nft_chain(&b, pre, "filter", NF_INET_PRE_ROUTING, -150);
	if (guest4 != NULL)
		guest_rules(&b, guest4);
	else
		own_rules(&b, pre);
	if (w == NET_TPROXY)
		leading_rules(&b, pre, BY_TPROXY, v6);
	else if (guest4 != NULL)
		leading_rules(&b, pre, ACCEPTED, v6);
	refusing_rules(&b);
	if (w == NET_REDIRECT)
		redirecting_chain(&b, guest4 != NULL, v6);
	nft_batch_end(&b);
	p->batch_n[w] = b.n;
	return b.full ? -E2BIG : 0;
}

int net_plan_gate(struct net_plan *p, struct net_range *r, uint32_t n, const uint8_t *guest4)
{
	if (n > NET_RANGES_MAX)
		return -E2BIG;
	n = ranges_join(r, n);
	p->tap = guest4 != NULL;
	p->first = NET_TPROXY;
	for (int w = 0; w < NET_WAYS; w++)
		if (write_way(p, (enum net_way)w, r, n, guest4) < 0)
			return -E2BIG;
	return 0;
}

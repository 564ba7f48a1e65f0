#include "gate/drops.h"

#include "base/num.h"

#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <string.h>

/* IPv4 (RFC 791), IPv6 (RFC 8200), ports (RFC 9293, RFC 768); nfnetlink_log's attributes. IPv6 extension headers
 * are not followed: the packet is reported by the first of them. */

static uint16_t be16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }

static int ports(const uint8_t *p, size_t n, struct drop *ret)
{
	if (ret->proto != IPPROTO_TCP && ret->proto != IPPROTO_UDP)
		return 0;
	if (n < 4)
		return -EBADMSG;
	ret->port = be16(p + 2);
	return 0;
}

int drop_parse(const uint8_t *p, size_t n, struct drop *ret)
{
	size_t head;

	*ret = (struct drop){.v6 = false};
	if (n < 1)
		return -EBADMSG;
	if (p[0] >> 4 == 4) {
		head = (size_t)(p[0] & 15) * 4;
		if (head < 20 || n < head)
			return -EBADMSG;
		ret->proto = p[9];
		memcpy(ret->dst, p + 16, 4);
		if ((be16(p + 6) & 0x1fff) != 0)
			return 0; /* a later fragment: no ports */
		return ports(p + head, n - head, ret);
	}
	if (p[0] >> 4 != 6 || n < 40)
		return -EBADMSG;
	ret->v6 = true;
	ret->proto = p[6];
	memcpy(ret->dst, p + 24, 16);
	return ports(p + 40, n - 40, ret);
}

/* The payload attribute of one message, NULL when it has none. */
static const uint8_t *payload_of(const uint8_t *p, size_t n, size_t *ret_n)
{
	size_t at = 0;

	while (n - at >= sizeof(struct nlattr)) {
		struct nlattr a;

		memcpy(&a, p + at, sizeof(a));
		if (a.nla_len < sizeof(a) || a.nla_len > n - at)
			return NULL;
		if ((a.nla_type & NLA_TYPE_MASK) == NFULA_PAYLOAD) {
			*ret_n = a.nla_len - sizeof(a);
			return p + at + sizeof(a);
		}
		if ((size_t)NLA_ALIGN(a.nla_len) >= n - at)
			return NULL;
		at += (size_t)NLA_ALIGN(a.nla_len);
	}
	return NULL;
}

int drop_next(const uint8_t *msg, size_t n, size_t *at, const uint8_t **ret, size_t *ret_n)
{
	const size_t head = sizeof(struct nlmsghdr) + sizeof(struct nfgenmsg);

	while (*at < n && n - *at >= sizeof(struct nlmsghdr)) {
		const uint8_t *p = msg + *at;
		struct nlmsghdr h;

		memcpy(&h, p, sizeof(h));
		if (h.nlmsg_len < sizeof(h) || h.nlmsg_len > n - *at)
			return 0;
		*at += MIN((size_t)NLMSG_ALIGN(h.nlmsg_len), n - *at);
		if (h.nlmsg_type != (NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET) || h.nlmsg_len < head)
			continue;
		*ret = payload_of(p + head, h.nlmsg_len - head, ret_n);
		if (*ret != NULL)
			return 1;
	}
	return 0;
}

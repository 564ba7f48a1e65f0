#include "net/nl_priv.h"

#include <endian.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <string.h>

/* The encoding of netlink: messages of attributes, each aligned to four bytes. Pure. */

static void *room(struct nl *b, size_t n)
{
	size_t aligned = (n + 3) & ~(size_t)3;
	uint8_t *at = b->p + b->n;

	if (b->full || aligned > b->cap - b->n) {
		b->full = true;
		return NULL;
	}
	memset(at, 0, aligned);
	b->n += aligned;
	return at;
}

void nl_begin(struct nl *b, uint16_t type, uint16_t flags, uint8_t family, uint16_t res_id)
{
	struct nlmsghdr h = {.nlmsg_type = type, .nlmsg_flags = flags, .nlmsg_seq = ++b->seq};
	struct nfgenmsg g = {.nfgen_family = family, .version = NFNETLINK_V0, .res_id = htobe16(res_id)};
	uint8_t *at;

	b->msg = b->n;
	at = room(b, sizeof(h) + sizeof(g));
	if (at == NULL)
		return;
	memcpy(at, &h, sizeof(h));
	memcpy(at + sizeof(h), &g, sizeof(g));
}

void nl_end(struct nl *b)
{
	uint32_t len = (uint32_t)(b->n - b->msg);

	if (!b->full)
		memcpy(b->p + b->msg + offsetof(struct nlmsghdr, nlmsg_len), &len, sizeof(len));
}

void nl_attr(struct nl *b, uint16_t type, const void *p, size_t n)
{
	struct nlattr a = {.nla_len = (uint16_t)(sizeof(a) + n), .nla_type = type};
	uint8_t *at = room(b, sizeof(a) + n);

	if (at == NULL)
		return;
	memcpy(at, &a, sizeof(a));
	memcpy(at + sizeof(a), p, n);
}

size_t nl_nest(struct nl *b, uint16_t type)
{
	size_t at = b->n;

	nl_attr(b, type | NLA_F_NESTED, "", 0);
	return at;
}

void nl_close(struct nl *b, size_t at)
{
	uint16_t len = (uint16_t)(b->n - at);

	if (b->n - at > UINT16_MAX)
		b->full = true;
	if (!b->full)
		memcpy(b->p + at + offsetof(struct nlattr, nla_len), &len, sizeof(len));
}

void nl_str(struct nl *b, uint16_t type, const char *s) { nl_attr(b, type, s, strlen(s) + 1); }
void nl_u8(struct nl *b, uint16_t type, uint8_t v) { nl_attr(b, type, &v, sizeof(v)); }

void nl_be32(struct nl *b, uint16_t type, uint32_t v)
{
	v = htobe32(v);
	nl_attr(b, type, &v, sizeof(v));
}

void nl_be64(struct nl *b, uint16_t type, uint64_t v)
{
	v = htobe64(v);
	nl_attr(b, type, &v, sizeof(v));
}

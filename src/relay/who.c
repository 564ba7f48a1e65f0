#include "relay/priv.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <string.h>
#include <sys/socket.h>

/*
 * Who inside has the socket a refusal is about (sock_diag(7)): a hint for people. The kernel answers for the moment of the question,
 * and programs hand sockets on. Asked for refusals that are written, not for what passes: a permission is to take no
 * time.
 */

static void put_id(struct inet_diag_sockid *id, const struct judge_peer *src, const struct judge_peer *dst)
{
	id->idiag_sport = htons(src->port);
	id->idiag_dport = htons(dst->port);
	memcpy(id->idiag_src, src->addr.a, sizeof(id->idiag_src));
	memcpy(id->idiag_dst, dst->addr.a, sizeof(id->idiag_dst));
	id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
}

/* A kernel without the module looks for it each time it is asked: after some questions in vain no more are. */
static bool in_vain(struct box *b)
{
	enum { TRIES = 4 };

	if (b->diag_tries < TRIES && ++b->diag_tries == TRIES)
		loop_drop(&b->sock[NET_DIAG]);
	return false;
}

bool who_has(struct box *b, const struct judge_record *r, uint32_t *ret)
{
	struct judge_peer to = {.port = 0};
	struct {
		struct nlmsghdr h;
		struct inet_diag_req_v2 q;
	} ask = {.h = {.nlmsg_len = sizeof(ask), .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
		 .q = {.idiag_states = UINT32_MAX}};
	struct {
		struct nlmsghdr h;
		struct inet_diag_msg m;
		uint8_t more[512];
	} said;
	bool udp = r->transport != NULL && strcmp(r->transport, "udp") == 0;
	int fd = b->sock[NET_DIAG].fd;
	ssize_t n;

	if (r->dest != NULL)
		to = (struct judge_peer){.addr = r->dest->orig, .port = r->dest->port};
	if (r->server != NULL)
		to = *r->server;
	if (fd < 0 || r->src == NULL || to.port == 0 || r->src->addr.v6 != to.addr.v6)
		return false;
	ask.q.sdiag_family = to.addr.v6 ? AF_INET6 : AF_INET;
	ask.q.sdiag_protocol = udp ? IPPROTO_UDP : IPPROTO_TCP;
	/* of UDP the kernel takes the other end's address first */
	put_id(&ask.q.id, udp ? &to : r->src, udp ? r->src : &to);
	while (recv(fd, &said, sizeof(said), MSG_DONTWAIT) >= 0)
		; /* nothing old may be taken for the answer */
	if (send(fd, &ask, sizeof(ask), MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)sizeof(ask))
		return false;
	n = recv(fd, &said, sizeof(said), MSG_DONTWAIT); /* it was made before send returned */
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(said.m)) || said.h.nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return in_vain(b);
	b->diag_tries = UINT8_MAX; /* it works */
	*ret = said.m.idiag_uid;
	return true;
}

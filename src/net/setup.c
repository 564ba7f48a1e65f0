#include "net/nft_priv.h"
#include "net/route_priv.h"
#include "net/setup_priv.h"

#include "base/cleanup.h"
#include "base/num.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/*
 * What is made inside the namespace. The caller is trusted, and nothing hostile runs there yet. The
 * set-up child has a small stack and shares its parent's memory: nothing here allocates.
 */

enum { NET_AGAIN_MAX = 256 }; /* what nft_again adds */
enum { BACKLOG = 1024, ROOM_USUAL = 64 * 1024 /* what a socket takes unasked */ };

/* The kernel answers each failing message, and the last one, which asks for it. */
static int read_answers(int fd)
{
	struct {
		struct nlmsghdr h;
		struct nlmsgerr e;
		uint8_t more[1024];
	} back;
	struct timeval limit = {.tv_sec = 5};

	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	for (;;) {
		ssize_t n = recv(fd, &back, sizeof(back), 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if ((size_t)n < NLMSG_LENGTH(sizeof(back.e)) || back.h.nlmsg_type != NLMSG_ERROR)
			return -EPROTO;
		return back.e.error; /* the first failure, or the acknowledgement */
	}
}

static int load_by(int fd, const uint8_t *batch, size_t n)
{
	int room = NET_BATCH_MAX * 4;

	if (n > ROOM_USUAL)
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	return send(fd, batch, n, 0) < 0 ? -errno : read_answers(fd);
}

int net_load_rules(const uint8_t *batch, size_t n)
{
	_cleanup_close_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);

	return fd < 0 ? -errno : load_by(fd, batch, n);
}

/* Of an expression that the kernel has no module of. */
static bool is_absent(int r) { return r == -ENOENT || r == -EOPNOTSUPP; }

/* By the first way the kernel has all parts of. */
static int load_some_way(const struct net_plan *p, char *why, size_t size)
{
	int r = -EINVAL;

	for (int w = (int)p->first; w < NET_WAYS; w++) {
		if (p->batch_n[w] == 0)
			continue;
		r = net_load_rules(p->batch[w], p->batch_n[w]);
		if (!is_absent(r))
			break;
	}
	if (is_absent(r))
		(void)snprintf(
		    why, size,
		    "network: the kernel lacks a part of the rule set ('brig check' says which)");
	else if (r < 0)
		(void)snprintf(
		    why, size,
		    "network: the kernel takes no nf_tables rules (modules nf_tables, nfnetlink)");
	return r;
}

static int on(int fd, int level, int opt)
{
	int one = 1;

	return setsockopt(fd, level, opt, &one, sizeof(one)) == 0 ? 0 : -errno;
}

static int open_tcp4(int *ret)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(NET_TCP_PORT)};
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || on(fd, IPPROTO_IP, IP_TRANSPARENT) < 0 ||
	    bind(fd, (const struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	*ret = steal_fd(&fd);
	return 0;
}

static int open_tcp6(int *ret)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(NET_TCP_PORT)};
	_cleanup_close_ int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || on(fd, IPPROTO_IPV6, IPV6_V6ONLY) < 0 ||
	    on(fd, IPPROTO_IPV6, IPV6_TRANSPARENT) < 0 ||
	    bind(fd, (const struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	*ret = steal_fd(&fd);
	return 0;
}

static int open_dns4(int *ret)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(53)};
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || on(fd, IPPROTO_IP, IP_TRANSPARENT) < 0 ||
	    on(fd, IPPROTO_IP, IP_PKTINFO) < 0 ||
	    bind(fd, (const struct sockaddr *)&a, sizeof(a)) < 0)
		return -errno;
	*ret = steal_fd(&fd);
	return 0;
}

/* Ask for the copies of one NFLOG group. */
static int open_drops(int *ret)
{
	struct {
		struct nlmsghdr h;
		struct nfgenmsg g;
		struct nlattr a_cmd;
		struct nfulnl_msg_config_cmd cmd;
		uint8_t pad1[3];
		struct nlattr a_mode;
		struct nfulnl_msg_config_mode mode;
		uint8_t pad2[2];
		struct nlattr a_thresh;
		uint32_t thresh;
	} __attribute__((packed))
	q = {.h = {.nlmsg_len = sizeof(q),
		   .nlmsg_type = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG,
		   .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
	     .g = {.version = NFNETLINK_V0, .res_id = htons(NET_DROPS_GROUP)},
	     .a_cmd = {.nla_len = sizeof(q.a_cmd) + sizeof(q.cmd), .nla_type = NFULA_CFG_CMD},
	     .cmd = {.command = NFULNL_CFG_CMD_BIND},
	     .a_mode = {.nla_len = sizeof(q.a_mode) + sizeof(q.mode), .nla_type = NFULA_CFG_MODE},
	     .mode = {.copy_range = htonl(NET_DROPS_SNAP), .copy_mode = NFULNL_COPY_PACKET},
	     .a_thresh = {.nla_len = sizeof(q.a_thresh) + sizeof(q.thresh),
			  .nla_type = NFULA_CFG_QTHRESH},
	     .thresh = htonl(1)};
	_cleanup_close_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	int r;

	_Static_assert(offsetof(__typeof__(q), a_mode) % 4 == 0 &&
			   offsetof(__typeof__(q), a_thresh) % 4 == 0,
		       "attributes are aligned to four bytes");
	if (fd < 0 || send(fd, &q, sizeof(q), 0) < 0)
		return -errno;
	r = read_answers(fd);
	if (r < 0)
		return r;
	*ret = steal_fd(&fd);
	return 0;
}

int net_setup(const struct net_plan *p, struct net_socks *ret, char *why, size_t size)
{
	bool v6 = false;
	int r = route_all_here(NET_OWN4_TEXT, NET_OWN6_TEXT, &v6, why, size);

	*ret = (struct net_socks){.fd = {-1, -1, -1, -1, -1}};
	if (r == 0 && p->tap)
		r = route_guest(why, size);
	if (r < 0)
		return r;
	/* first what listens, then what leads there */
	(void)snprintf(why, size, "network: listeners");
	r = open_tcp4(&ret->fd[NET_TCP4]);
	if (r == 0 && v6)
		r = open_tcp6(&ret->fd[NET_TCP6]);
	if (r == 0)
		r = open_dns4(&ret->fd[NET_DNS4]);
	if (r == 0)
		r = load_some_way(p, why, size);
	if (r == 0) {
		(void)snprintf(why, size,
			       "network: reports of refused packets (module nfnetlink_log)");
		r = open_drops(&ret->fd[NET_DROPS]);
	}
	if (r == 0) {
		ret->fd[NET_RULES] = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_NETFILTER);
		r = ret->fd[NET_RULES] < 0 ? -errno : 0;
	}
	if (r < 0)
		net_socks_close(ret);
	return r;
}

void net_socks_close(struct net_socks *s)
{
	for (int i = 0; i < NET_SOCKS; i++)
		if (s->fd[i] >= 0)
			(void)close(steal_fd(&s->fd[i]));
}

int net_replace(int rules_fd, const struct net_plan *p)
{
	_cleanup_free_ uint8_t *batch = malloc(NET_BATCH_MAX + NET_AGAIN_MAX);
	int r = -EINVAL;

	if (batch == NULL)
		return -ENOMEM;
	for (int w = (int)p->first; w < NET_WAYS; w++) {
		size_t n = p->batch_n[w] == 0 ? 0 : nft_again(p->batch[w], p->batch_n[w], batch, NET_BATCH_MAX + NET_AGAIN_MAX);

		if (n == 0)
			continue;
		r = load_by(rules_fd, batch, n);
		if (!is_absent(r))
			break;
	}
	return r;
}

#include "net/net.h"
#include "net/route_priv.h"

#include "base/cleanup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * What is made inside the namespace. The caller is trusted, and nothing hostile runs there yet. The
 * set-up child has a small stack and shares its parent's memory: nothing here allocates.
 */

enum { BACKLOG = 1024 };

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

/* Only made here: net_load speaks over them. */
static int open_netfilter(int *ret)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_NETFILTER);

	if (fd < 0)
		return -errno;
	*ret = fd;
	return 0;
}

int net_setup(const struct net_plan *p, struct net_socks *ret, char *why, size_t size)
{
	bool v6 = false;
	int r = route_all_here(NET_OWN4_TEXT, NET_OWN6_TEXT, &v6, why, size);

	*ret = (struct net_socks)NET_SOCKS_NONE;
	if (r == 0 && p->tap)
		r = route_guest(why, size);
	if (r < 0)
		return r;
	(void)snprintf(why, size, "network: listeners");
	r = open_tcp4(&ret->fd[NET_TCP4]);
	if (r == 0 && v6)
		r = open_tcp6(&ret->fd[NET_TCP6]);
	if (r == 0)
		r = open_dns4(&ret->fd[NET_DNS4]);
	if (r == 0) {
		(void)snprintf(why, size, "network: no netlink for nf_tables (modules nf_tables, nfnetlink)");
		r = open_netfilter(&ret->fd[NET_DROPS]);
	}
	if (r == 0)
		r = open_netfilter(&ret->fd[NET_RULES]);
	if (r == 0 && !p->tap) /* for a hint only: without it there is none */
		ret->fd[NET_DIAG] = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
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

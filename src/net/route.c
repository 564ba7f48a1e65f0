#include "net/net.h"
#include "net/route_priv.h"

#include "base/cleanup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/*
 * Addresses and routes of the namespace, over rtnetlink(7): what
 *   ip addr add OWN dev lo ; ip route add local default dev lo src OWN
 * and their IPv6 forms do. A default route of type `local` makes the kernel deliver every address
 * here.
 */

enum { LOOPBACK = 1 };

struct ask {
	struct nlmsghdr h;
	union {
		struct ifaddrmsg addr;
		struct rtmsg route;
	} u;
	uint8_t attrs[96];
};

static void start(struct ask *a, uint16_t type, size_t body)
{
	*a = (struct ask){.h = {.nlmsg_len = (uint32_t)NLMSG_LENGTH(body),
				.nlmsg_type = type,
				.nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_ACK}};
}

static void attr(struct ask *a, uint16_t type, const void *p, size_t n)
{
	struct rtattr r = {.rta_len = (uint16_t)RTA_LENGTH(n), .rta_type = type};
	uint8_t *at = (uint8_t *)a + NLMSG_ALIGN(a->h.nlmsg_len);

	memcpy(at, &r, sizeof(r));
	memcpy(at + RTA_LENGTH(0), p, n);
	a->h.nlmsg_len = (uint32_t)(NLMSG_ALIGN(a->h.nlmsg_len) + RTA_ALIGN(r.rta_len));
}

static int do_ask(int fd, const struct ask *a)
{
	struct {
		struct nlmsghdr h;
		struct nlmsgerr e;
		uint8_t more[512];
	} back;
	ssize_t n;

	if (send(fd, a, a->h.nlmsg_len, 0) < 0)
		return -errno;
	do
		n = recv(fd, &back, sizeof(back), 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if ((size_t)n < NLMSG_LENGTH(sizeof(back.e)) || back.h.nlmsg_type != NLMSG_ERROR)
		return -EPROTO;
	return back.e.error == -EEXIST ? 0 : back.e.error;
}

static int add_addr(int fd, int family, uint32_t interface, const void *addr, size_t n,
		    uint8_t prefix)
{
	struct ask a;

	start(&a, RTM_NEWADDR, sizeof(a.u.addr));
	a.u.addr = (struct ifaddrmsg){.ifa_family = (uint8_t)family,
				      .ifa_prefixlen = prefix,
				      .ifa_flags = family == AF_INET6 ? IFA_F_NODAD : 0,
				      .ifa_index = interface};
	attr(&a, IFA_LOCAL, addr, n);
	attr(&a, IFA_ADDRESS, addr, n);
	return do_ask(fd, &a);
}

static int add_route(int fd, int family, const void *src, size_t n)
{
	uint32_t lo = LOOPBACK;
	struct ask a;

	start(&a, RTM_NEWROUTE, sizeof(a.u.route));
	a.u.route = (struct rtmsg){.rtm_family = (uint8_t)family,
				   .rtm_table = RT_TABLE_MAIN,
				   .rtm_protocol = RTPROT_STATIC,
				   .rtm_scope = RT_SCOPE_HOST,
				   .rtm_type = RTN_LOCAL};
	attr(&a, RTA_OIF, &lo, sizeof(lo));
	attr(&a, RTA_PREFSRC, src, n);
	return do_ask(fd, &a);
}

int route_all_here(const char *own4, const char *own6, bool *ret_v6, char *why, size_t size)
{
	_cleanup_close_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	uint8_t a4[4], a6[16];
	int r;

	(void)snprintf(why, size, "network: addresses and routes");
	if (fd < 0)
		return -errno;
	(void)inet_pton(AF_INET, own4, a4);
	(void)inet_pton(AF_INET6, own6, a6);
	r = add_addr(fd, AF_INET, LOOPBACK, a4, sizeof(a4), 32);
	if (r == 0)
		r = add_route(fd, AF_INET, a4, sizeof(a4));
	if (r < 0)
		return r;
	r = add_addr(fd, AF_INET6, LOOPBACK, a6, sizeof(a6), 128);
	*ret_v6 = r == 0;
	/* no IPv6 on this host: EOPNOTSUPP, or EACCES where it is switched off for the interface */
	if (r == -EOPNOTSUPP || r == -EAFNOSUPPORT || r == -EACCES)
		return 0;
	return r < 0 ? r : add_route(fd, AF_INET6, a6, sizeof(a6));
}

int route_guest(char *why, size_t size)
{
	_cleanup_close_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	_cleanup_close_ int ctl_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	static const uint8_t mac[6] = NET_GATEWAY_MAC;
	struct ifreq ifr = {.ifr_name = NET_TAP_NAME};
	uint8_t gateway[4];
	uint32_t index;

	(void)snprintf(why, size, "network: interface " NET_TAP_NAME);
	if (fd < 0 || ctl_fd < 0 || ioctl(ctl_fd, SIOCGIFINDEX, &ifr) < 0)
		return -errno;
	index = (uint32_t)ifr.ifr_ifindex;
	ifr.ifr_hwaddr = (struct sockaddr){.sa_family = ARPHRD_ETHER};
	memcpy(ifr.ifr_hwaddr.sa_data, mac, sizeof(mac));
	if (ioctl(ctl_fd, SIOCSIFHWADDR, &ifr) < 0)
		return -errno;
	ifr.ifr_flags = IFF_UP | IFF_RUNNING;
	if (ioctl(ctl_fd, SIOCSIFFLAGS, &ifr) < 0)
		return -errno;
	(void)inet_pton(AF_INET, NET_GATEWAY_TEXT, gateway);
	return add_addr(fd, AF_INET, index, gateway, sizeof(gateway), NET_GUEST_PREFIX);
}

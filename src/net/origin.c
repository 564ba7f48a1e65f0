#include "net/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

/*
 * Where an accepted socket wanted to go. By TPROXY that is the socket's own name. By redirect its
 * own name is the listener's, and connection tracking knows what it was before (SO_ORIGINAL_DST).
 * The address is the sandbox's to choose in either case: it is what is judged, never a proof of
 * anything.
 */

/* SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST of linux/netfilter_ipv4.h and
 * linux/netfilter_ipv6/ip6_tables.h, which cannot be included beside musl's netinet/in.h. */
enum { ORIGINAL_DST = 80 };

static int from_ss(const struct sockaddr_storage *ss, bool *ret_v6, uint8_t ret_addr[16],
		   uint16_t *ret_port)
{
	struct sockaddr_in s4;
	struct sockaddr_in6 s6;

	memset(ret_addr, 0, 16);
	if (ss->ss_family == AF_INET) {
		memcpy(&s4, ss, sizeof(s4));
		memcpy(ret_addr, &s4.sin_addr, 4);
		*ret_port = ntohs(s4.sin_port);
	} else if (ss->ss_family == AF_INET6) {
		memcpy(&s6, ss, sizeof(s6));
		memcpy(ret_addr, &s6.sin6_addr, 16);
		*ret_port = ntohs(s6.sin6_port);
	} else {
		return -EAFNOSUPPORT;
	}
	*ret_v6 = ss->ss_family == AF_INET6;
	return 0;
}

int net_origin(int fd, bool *ret_v6, uint8_t ret_addr[16], uint16_t *ret_port)
{
	struct sockaddr_storage ss = {.ss_family = AF_UNSPEC}, before = ss;
	socklen_t n = sizeof(ss), m = sizeof(before);
	bool v6;
	int r = getsockname(fd, (struct sockaddr *)&ss, &n) < 0
		    ? -errno
		    : from_ss(&ss, ret_v6, ret_addr, ret_port);

	if (r < 0 || *ret_port != NET_TCP_PORT)
		return r;
	v6 = *ret_v6;
	/* none known: it did come for the listener itself */
	if (getsockopt(fd, v6 ? SOL_IPV6 : SOL_IP, ORIGINAL_DST, &before, &m) < 0)
		return 0;
	return from_ss(&before, ret_v6, ret_addr, ret_port);
}

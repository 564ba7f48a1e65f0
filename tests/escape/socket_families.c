/*
 * Opens sockets of families that no namespace keeps in, or that carry much rarely used kernel code. The control is root of a
 * network namespace of its own.
 *
 * group: sockets
 * tries: open packet, raw, vsock, crypto, netfilter, audit and event sockets, multipath and stream control TCP, and change its interfaces
 * control: ns
 * no-control: sctp no module here; alg likewise
 */
#include <linux/netlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "attack.h"

static long family(int domain, int type, int protocol)
{
	int s = socket(domain, type | SOCK_CLOEXEC, protocol), e = errno;

	if (s >= 0)
		(void)close(s);
	errno = e;
	return s;
}

/* Loopback down and up again, as setting any address or route would begin. */
static long change_interface(void)
{
	struct ifreq r = {.ifr_name = "lo"};
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (ioctl(s, SIOCGIFFLAGS, &r) < 0)
		return -1;
	return ioctl(s, SIOCSIFFLAGS, &r);
}

int main(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	tried("packet", family(AF_PACKET, SOCK_RAW, 0));
	tried("raw", family(AF_INET, SOCK_RAW, 1));
	tried("raw6", family(AF_INET6, SOCK_RAW, 58));
	tried("vsock", family(AF_VSOCK, SOCK_STREAM, 0));
	tried("alg", family(AF_ALG, SOCK_SEQPACKET, 0));
	tried("netfilter", family(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER));
	tried("audit", family(AF_NETLINK, SOCK_RAW, NETLINK_AUDIT));
	tried("uevent", family(AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT));
	tried("generic", family(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC));
	tried("mptcp", family(AF_INET, SOCK_STREAM, 262));
	tried("sctp", family(AF_INET, SOCK_STREAM, 132));
	tried("interface", change_interface());
	return ended();
}

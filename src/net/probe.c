#include "net/net.h"
#include "net/nft_priv.h"
#include "net/setup_priv.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "sys/file.h"

#include <arpa/inet.h> /* before linux/netfilter.h, which has the same names */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * What the kernel takes of the gate's network, found by asking: a child makes a user and a network
 * namespace of its own, as a sandbox gets them, tries each part, then the whole by each way in a
 * fresh network namespace, and tells what came of it through a pipe.
 */

const struct net_part_info net_part_info[NET_PARTS] = {
#define NET_PART(id, text, kmods, use)                                                             \
	[NET_PART_##id] = {.name = (text), .modules = (kmods), .purpose = (use)},
#include "net/parts.def"
#undef NET_PART
};

static int lo_up(void)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};

	return fd < 0 || ioctl(fd, SIOCSIFFLAGS, &ifr) < 0 ? -errno : 0;
}

static int try_tun(void)
{
	_cleanup_close_ int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
	struct ifreq ifr = {.ifr_name = NET_TAP_NAME, .ifr_flags = IFF_TAP | IFF_NO_PI};

	return fd < 0 || ioctl(fd, TUNSETIFF, &ifr) < 0 ? -errno : 0;
}

static int try_ipv6(void)
{
	_cleanup_close_ int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};

	return fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof(a)) < 0 ? -errno : 0;
}

static void say_part(struct nl *b, enum net_part part)
{
	switch (part) {
	case NET_PART_reject:
		nft_reject(b, NFT_REJECT_ICMPX_UNREACH, NFT_REJECT_ICMPX_ADMIN_PROHIBITED);
		break;
	case NET_PART_log:
		nft_limit(b, NET_DROPS_PER_S);
		nft_log(b, NET_DROPS_GROUP, NET_DROPS_SNAP);
		break;
	case NET_PART_tproxy:
		nft_if_transparent(b);
		nft_if_proto(b, IPPROTO_TCP);
		nft_if_family(b, NFPROTO_IPV4);
		nft_tproxy(b, NFPROTO_IPV4, NET_TCP_PORT);
		break;
	case NET_PART_redirect:
		nft_if_proto(b, IPPROTO_TCP);
		nft_redirect(b, NET_TCP_PORT);
		break;
	case NET_PART_namespaces:
	case NET_PART_nf_tables:
	case NET_PART_ipv6:
	case NET_PART_tun:
	case NET_PARTS:
		break;
	}
}

/* A table with one rule of this part; the namespace forgets it. */
static int try_rule(enum net_part part)
{
	uint8_t batch[2048];
	struct nl b = {.p = batch, .cap = sizeof(batch)};
	bool nat = part == NET_PART_redirect;
	size_t r;

	nft_batch_begin(&b);
	nft_chain(&b, net_part_info[part].name, nat ? "nat" : "filter",
		  nat ? NF_INET_LOCAL_OUT : NF_INET_PRE_ROUTING, nat ? -100 : -150);
	if (part != NET_PART_nf_tables) {
		r = nft_rule(&b, net_part_info[part].name);
		say_part(&b, part);
		nft_rule_end(&b, r);
	}
	nft_batch_end(&b);
	return b.full ? -E2BIG : net_load_rules(b.p, b.n);
}

static int try_part(enum net_part part)
{
	switch (part) {
	case NET_PART_namespaces:
		return 0;
	case NET_PART_ipv6:
		return try_ipv6();
	case NET_PART_tun:
		return try_tun();
	case NET_PART_nf_tables:
	case NET_PART_reject:
	case NET_PART_log:
	case NET_PART_tproxy:
	case NET_PART_redirect:
	case NET_PARTS:
		break;
	}
	return try_rule(part);
}

/* The whole, by one way only. */
static int try_way(struct net_plan *p, enum net_way w, char *why, size_t size)
{
	struct net_socks s;
	const char *lacks = "";
	int r = unshare(CLONE_NEWNET) < 0 ? -errno : lo_up();

	for (int other = 0; other < NET_WAYS; other++)
		if (other != (int)w)
			p->batch_n[other] = 0;
	p->first = w;
	if (r == 0) {
		r = net_setup(p, &s, why, size);
		if (r < 0)
			return r;
		r = net_load(p, &s, &lacks);
		if (r < 0)
			(void)snprintf(why, size, "%s", lacks);
		net_socks_close(&s);
	}
	return r;
}

static void try_all(struct net_offer *o)
{
	_cleanup_free_ struct net_plan *p = malloc(sizeof(*p));
	struct net_range all = {.first = {198, 18, 0, 0}, .last = {198, 19, 255, 255}};

	for (int i = 0; i < NET_PARTS; i++)
		o->err[i] = -try_part((enum net_part)i);
	for (int w = 0; w < NET_WAYS; w++) {
		int r = p == NULL ? -ENOMEM : net_plan_gate(p, &all, 1, NULL);

		if (r == 0)
			r = try_way(p, (enum net_way)w, o->why[w], sizeof(o->why[w]));
		o->setup_err[w] = -r;
	}
}

static _Noreturn void try_in_child(int fd)
{
	struct net_offer o = {.err = {0}};

	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		o.err[NET_PART_namespaces] = errno;
	else if (lo_up() < 0)
		o.err[NET_PART_namespaces] = errno;
	else
		try_all(&o);
	(void)file_write_all(fd, &o, sizeof(o));
	_exit(0);
}

static ssize_t read_all(int fd, void *p, size_t n)
{
	size_t at = 0;

	while (at < n) {
		ssize_t got = read(fd, (uint8_t *)p + at, n - at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		at += (size_t)got;
	}
	return (ssize_t)at;
}

int net_probe(struct net_offer *ret)
{
	_cleanup_close_ int r_fd = -1, w_fd = -1;
	int fds[2], r = -EIO;
	pid_t pid;

	*ret = (struct net_offer){.err = {0}};
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	r_fd = fds[0];
	w_fd = fds[1];
	pid = fork();
	if (pid == 0)
		try_in_child(w_fd);
	if (pid < 0)
		return -errno;
	(void)close(steal_fd(&w_fd));
	if (read_all(r_fd, ret, sizeof(*ret)) == (ssize_t)sizeof(*ret))
		r = -ret->err[NET_PART_namespaces];
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	for (int w = 0; w < NET_WAYS; w++)
		ret->why[w][sizeof(ret->why[w]) - 1] = '\0';
	return r;
}

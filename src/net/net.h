#pragma once
/*
 * The network of one sandbox that has a gate: what is made inside its network namespace, and the
 * sockets that are made there and handed out. One interface for every tier (docs/egress.md).
 *
 * The namespace has no uplink. A route makes every address local, a rule set (nf_tables) leads what may
 * be asked for to sockets inside, and refuses and reports the rest. Whoever holds the sockets decides.
 * The rules are transport: without them, or without the holder, nothing is reached.
 *
 *   spawner     net_plan_gate: the rule set as bytes
 *   tier, inside the new namespace, before anything hostile runs there: net_setup, net_send
 *   tier, outside: net_take; before anything hostile runs inside: net_load
 */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is handed out. Absent ones are -1. All non-blocking and close-on-exec. */
enum net_sock {
	NET_TCP4, /* listener; net_origin tells where an accepted socket wanted to go */
	NET_TCP6, /* the same; -1 where the host has no IPv6 */
	NET_DNS4, /* UDP 53: questions to any address, which IP_PKTINFO tells; answer with it as source */
	NET_DROPS, /* NETLINK_NETFILTER: a copy of the head of each packet that was refused */
	NET_DIAG, /* NETLINK_SOCK_DIAG: who has a socket inside; -1 of a guest, and where the kernel has none */
	NET_RULES, /* NETLINK_NETFILTER: for net_load and net_replace; stays with whoever started the sandbox */
	NET_SOCKS,
};
struct net_socks {
	int fd[NET_SOCKS];
};
#define NET_SOCKS_NONE {.fd = {[0 ... NET_SOCKS - 1] = -1}}

/* Inside the namespace. */
#define NET_OWN4_TEXT "198.18.0.2" /* the sandbox's own address */
#define NET_DNS4_TEXT "198.18.0.1" /* its name server */
#define NET_OWN6_TEXT "fd00:5b:ffff::2"
/* Of a guest behind a TAP interface: its only address, that of its gateway, and the gateway's MAC address, which stays
 * the same for every sandbox, so that what a restored guest has in its ARP cache is right. */
#define NET_TAP_NAME   "tap0"
#define NET_GUEST_TEXT "172.31.255.2"
#define NET_GATEWAY_TEXT "172.31.255.1"
#define NET_GATEWAY_MAC {0x02, 'b', 'r', 'i', 'g', 0x01}
enum {
	NET_TCP_PORT = 99,      /* of the listeners: below 1024, so nothing inside can take it first */
	NET_DROPS_GROUP = 5,    /* NFLOG group */
	NET_DROPS_SNAP = 96,    /* bytes of a refused packet that are copied */
	NET_DROPS_PER_S = 200,  /* more are refused without a copy */
	NET_RANGES_MAX = 256,
	NET_BATCH_MAX = 48 * 1024,
	NET_GUEST_PREFIX = 30,
};

/*
 * How packets come to the listeners. What is refused, and that nothing leaves, is the same for both; which one a
 * sandbox has is found by asking the kernel, in this order.
 */
enum net_way {
	NET_TPROXY,   /* addresses stay as they are; nothing is tracked (nft_tproxy, nft_socket) */
	NET_REDIRECT, /* destinations are changed, which takes connection tracking (nft_redir, nft_chain_nat) */
	NET_WAYS,
};

/* Addresses that TCP may be asked for: first and last, IPv4 in the first four bytes. */
struct net_range {
	bool v6;
	uint8_t first[16], last[16];
};

struct net_plan {
	bool tap;           /* the sandbox is a guest behind a TAP interface in the namespace */
	enum net_way first; /* ways before it are not tried */
	size_t batch_n[NET_WAYS];
	uint8_t batch[NET_WAYS][NET_BATCH_MAX];
};

/*
 * Make the rule set, for each way. Ranges may overlap; they are sorted and joined in place. guest4 is NULL, or the
 * only IPv4 source address (network order) that frames from interface NET_TAP_NAME may have.
 * 0, or -E2BIG.
 */
int must_check net_plan_gate(struct net_plan *p, struct net_range *r, uint32_t n, const uint8_t *guest4);

/*
 * In the namespace, with CAP_NET_ADMIN and CAP_NET_BIND_SERVICE over it, loopback being up, and, for a guest, with
 * NET_TAP_NAME made: addresses, routes, sockets. Neither allocates nor keeps state. On failure -errno with
 * what failed in *why, and nothing to close. Nothing is led to the sockets, and all else is refused by nobody being
 * there, until net_load.
 */
int must_check net_setup(const struct net_plan *p, struct net_socks *ret, char *why, size_t size);
/*
 * The rule set and the reports of what it refuses, over NET_RULES and NET_DROPS, at once or not at all. The caller must be the
 * user who made the namespace, or root, in it or outside. Raw system calls only (sys/raw.h). On failure -errno, and *why
 * is a text that stays.
 */
int must_check net_load(const struct net_plan *p, const struct net_socks *s, const char **why);
/*
 * Another rule set in the place of the one that is loaded, at once or not at all. rules_fd: NET_RULES. The caller must be
 * the user who made the namespace, or root. 0 or -errno: then the old one stays.
 */
int must_check net_replace(int rules_fd, const struct net_plan *p);
/* Close all that are there. */
void net_socks_close(struct net_socks *s);
/* Hand the sockets to the other end of a stream or seqpacket socket, as one message. They stay open here. */
int must_check net_send(int sock, const struct net_socks *s);
/* Take them: 0, -EPIPE when the other end closed instead, or -errno. Raw system calls only (sys/raw.h). */
int must_check net_take(int sock, struct net_socks *ret);
/*
 * Where an accepted socket of a listener wanted to go: IPv4 in the first four bytes, network order. A listener's own
 * address means itself. 0 or -errno.
 */
int must_check net_origin(int fd, bool *ret_v6, uint8_t ret_addr[16], uint16_t *ret_port);

/* ---- what a host offers ---- */

/* Things the network of a gate is made of, see parts.def. */
enum net_part {
#define NET_PART(id, name, modules, purpose) NET_PART_##id,
#include "net/parts.def"
#undef NET_PART
	NET_PARTS,
};
struct net_part_info {
	const char *name, *modules, *purpose;
};
extern const struct net_part_info net_part_info[NET_PARTS];
struct net_offer {
	int err[NET_PARTS];       /* 0 = there, else errno */
	int setup_err[NET_WAYS];  /* of a whole set-up by this way */
	char why[NET_WAYS][160];  /* what failed then */
};
/*
 * Try everything in namespaces of a child's own. 0, or -errno when not even that was possible: then it is said of
 * NET_PART_namespaces.
 */
int must_check net_probe(struct net_offer *ret);

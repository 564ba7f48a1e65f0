#include "net/nft_priv.h"
#include "net/setup_priv.h"

#include "base/cleanup.h"
#include "sys/raw.h"

#include <arpa/inet.h> /* before linux/netfilter.h, which has the same names */
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdlib.h>

/*
 * The rule set and the reports, over sockets that were made inside the namespace. The kernel asks
 * whether who opened such a socket and who speaks over it may change the namespace (netlink(7)):
 * the user who made it may, from outside too. So what takes longest of a gate's network, the kernel
 * patching its own text for hooks that nobody had before, happens beside the rest of a start.
 * Whoever calls may share its memory with a process that runs: raw system calls, no errno, no
 * allocation.
 */

enum { NET_AGAIN_MAX = 256 };	 /* what nft_again adds */
enum { ROOM_USUAL = 64 * 1024 }; /* what a socket takes unasked */

/*
 * The kernel has answered when the call that asked returns: of each message that failed, or of the
 * last, which asks for it. The first counts; none may be left for the next question.
 */
static int read_answers(int fd)
{
	struct {
		struct nlmsghdr h;
		struct nlmsgerr e;
		uint8_t more[1024];
	} back;
	int first = 1;

	back.h.nlmsg_type = 0;
	for (;;) {
		long n = raw_call6(SYS_recvfrom, fd, (long)&back, sizeof(back), MSG_DONTWAIT, 0, 0);

		if (n == -EINTR)
			continue;
		if (n < 0)
			return first <= 0 ? first : (int)n;
		if ((size_t)n < NLMSG_LENGTH(sizeof(back.e)) || back.h.nlmsg_type != NLMSG_ERROR)
			return -EPROTO;
		first = first <= 0 ? first : back.e.error;
	}
}

static int tell(int fd, const void *p, size_t n)
{
	int room = NET_BATCH_MAX * 4;
	long r;

	if (n > ROOM_USUAL)
		(void)raw_call(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDBUF, (long)&room,
			       sizeof(room));
	r = raw_send(fd, p, n);
	return r < 0 ? (int)r : read_answers(fd);
}

int net_load_rules(const uint8_t *batch, size_t n)
{
	_cleanup_close_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);

	return fd < 0 ? -errno : tell(fd, batch, n);
}

/* Of an expression that the kernel has no module of. */
static bool is_absent(int r) { return r == -ENOENT || r == -EOPNOTSUPP; }

/* By the first way the kernel has all parts of. */
static int load_some_way(const struct net_plan *p, int fd, const char **why)
{
	int r = -EINVAL;

	for (int w = (int)p->first; w < NET_WAYS; w++) {
		if (p->batch_n[w] == 0)
			continue;
		r = tell(fd, p->batch[w], p->batch_n[w]);
		if (!is_absent(r))
			break;
	}
	if (is_absent(r))
		*why = "network: the kernel lacks a part of the rule set ('brig check' says which)";
	else if (r < 0)
		*why =
		    "network: the kernel takes no nf_tables rules (modules nf_tables, nfnetlink)";
	return r;
}

/* Ask for the copies of one NFLOG group. */
static int ask_for_drops(int fd)
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

	_Static_assert(offsetof(__typeof__(q), a_mode) % 4 == 0 &&
			   offsetof(__typeof__(q), a_thresh) % 4 == 0,
		       "attributes are aligned to four bytes");
	return tell(fd, &q, sizeof(q));
}

int net_load(const struct net_plan *p, const struct net_socks *s, const char **why)
{
	int r =
	    ask_for_drops(s->fd[NET_DROPS]); /* first who hears of refusals, then what refuses */

	if (r < 0) {
		*why = "network: reports of refused packets (module nfnetlink_log)";
		return r;
	}
	return load_some_way(p, s->fd[NET_RULES], why);
}

int net_replace(int rules_fd, const struct net_plan *p)
{
	_cleanup_free_ uint8_t *batch = malloc(NET_BATCH_MAX + NET_AGAIN_MAX);
	int r = -EINVAL;

	if (batch == NULL)
		return -ENOMEM;
	for (int w = (int)p->first; w < NET_WAYS; w++) {
		size_t n = p->batch_n[w] == 0 ? 0
					      : nft_again(p->batch[w], p->batch_n[w], batch,
							  NET_BATCH_MAX + NET_AGAIN_MAX);

		if (n == 0)
			continue;
		r = tell(rules_fd, batch, n);
		if (!is_absent(r))
			break;
	}
	return r;
}

#include "relay/priv.h"

#include "base/num.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/*
 * Questions for names. The answer is a made-up address that stands for the name, given only for
 * names the rules allow; no question of the sandbox's goes upstream as it is. A name that the rules
 * spell out is looked up first, so that one that does not exist is said not to: the resolver is
 * asked for what the rules say, so nothing can be told by it. Answers leave with the address the
 * question was sent to as their source, whatever it was.
 */

enum { QUESTION_MAX = 1500, ANSWER_MAX = 512 };

/* A question whose answer waits. */
struct question {
	struct box *b;
	struct sockaddr_in from;
	struct in_pktinfo to;
	size_t n;
	uint8_t q[];
};

void names_record(struct box *b, const struct judge_dns *d, const char *transport, const struct judge_peer *from,
		  const struct judge_peer *to)
{
	struct judge_record r = {.event = "dns",
				 .src = from,
				 .server = to,
				 .reason = d->reason,
				 .rule = d->rule,
				 .transport = transport,
				 .asked = d->asked,
				 .asked_n = d->asked_n};

	(void)box_record(b, &r);
}

static void record(struct box *b, const struct judge_dns *d, const struct sockaddr_in *from, const struct in_pktinfo *to)
{
	struct judge_peer src = {.port = ntohs(from->sin_port)}, server = {.port = 53};

	memcpy(src.addr.a, &from->sin_addr, 4);
	memcpy(server.addr.a, &to->ipi_addr, 4);
	names_record(b, d, "udp", &src, &server);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): an iovec has no const */
static void reply(int fd, const struct sockaddr_in *asker, struct in_pktinfo pi, uint8_t *p,
		  size_t n)
{
	struct sockaddr_in to = *asker;
	struct iovec iov = {.iov_base = p, .iov_len = n};
	union {
		char space[CMSG_SPACE(sizeof(struct in_pktinfo))];
		struct cmsghdr align;
	} ctl = {{0}};
	struct msghdr m = {.msg_name = &to,
			   .msg_namelen = sizeof(to),
			   .msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &ctl,
			   .msg_controllen = sizeof(ctl)};

	pi.ipi_spec_dst = pi.ipi_addr; /* the socket is transparent: any source will do */
	pi.ipi_ifindex = 0;
	ctl.align.cmsg_level = IPPROTO_IP;
	ctl.align.cmsg_type = IP_PKTINFO;
	ctl.align.cmsg_len = CMSG_LEN(sizeof(pi));
	memcpy(CMSG_DATA(&ctl.align), &pi, sizeof(pi));
	(void)!sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void resolved(void *arg, const struct resolve_result *res)
{
	struct question *w = (struct question *)arg;
	struct box *b = w->b;
	struct judge_dns d = {.denied = false};
	uint8_t out[ANSWER_MAX];
	size_t m;

	b->questions_n--;
	if (b->sock[NET_DNS4].fd >= 0) { /* else the box ends */
		m = judge_dns_resolved(b->judge, w->q, w->n, res, out, sizeof(out), &d);
		if (d.denied)
			record(b, &d, &w->from, &w->to);
		if (m > 0)
			reply(b->sock[NET_DNS4].fd, &w->from, w->to, out, m);
	}
	free(w);
}

/* A question that finds no room is not answered: the sandbox asks again. */
static void wait_for(struct box *b, const char *name, const struct sockaddr_in *from,
		     const struct in_pktinfo *to, const uint8_t *q, size_t n)
{
	struct question *w = b->questions_n < BOX_QUESTIONS_MAX ? malloc(sizeof(*w) + n) : NULL;

	if (w == NULL)
		return;
	*w = (struct question){.b = b, .from = *from, .to = *to, .n = n};
	memcpy(w->q, q, n);
	b->questions_n++;
	lookup(b, name, resolved, w);
}

static void take(struct box *b, const struct sockaddr_in *from, struct msghdr *asked,
		 const uint8_t *q, size_t n)
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(asked);
	struct judge_dns d = {.denied = false};
	struct in_pktinfo to;
	uint8_t out[ANSWER_MAX];
	size_t m;

	if (c == NULL || c->cmsg_level != IPPROTO_IP || c->cmsg_type != IP_PKTINFO ||
	    c->cmsg_len < CMSG_LEN(sizeof(to)))
		return;
	memcpy(&to, CMSG_DATA(c), sizeof(to));
	m = judge_dns(b->judge, q, n, out, sizeof(out), &d);
	if (d.denied)
		record(b, &d, from, &to);
	if (d.wait)
		wait_for(b, d.name, from, &to, q, n);
	else if (m > 0)
		reply(b->sock[NET_DNS4].fd, from, to, out, m);
}

void names_udp(struct box *b)
{
	uint8_t q[QUESTION_MAX];

	for (int i = 0; i < TURN_QUESTIONS; i++) {
		union {
			char space[CMSG_SPACE(sizeof(struct in_pktinfo))];
			struct cmsghdr align;
		} ctl;
		struct sockaddr_in from = {.sin_family = AF_UNSPEC};
		struct iovec iov = {.iov_base = q, .iov_len = sizeof(q)};
		struct msghdr m = {.msg_name = &from,
				   .msg_namelen = sizeof(from),
				   .msg_iov = &iov,
				   .msg_iovlen = 1,
				   .msg_control = &ctl,
				   .msg_controllen = sizeof(ctl)};
		ssize_t n = recvmsg(b->sock[NET_DNS4].fd, &m, MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return;
		if ((m.msg_flags & MSG_TRUNC) == 0)
			take(b, &from, &m, q, (size_t)n);
	}
	b->again = true;
}

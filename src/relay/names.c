#include "relay/priv.h"

#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/*
 * Questions for names. The answer is a made-up address that stands for the name, given only for names the
 * rules allow; no question of the sandbox's goes upstream as it is. Answers leave with the
 * address the question was sent to as their source, whatever it was.
 */

enum { QUESTION_MAX = 1500, ANSWER_MAX = 512, TURN_MAX = 64 };

static size_t answer(struct box *b, const uint8_t *q, size_t n, uint8_t *out, size_t size)
{
	struct judge_dns d = {.denied = false};
	size_t m = judge_dns(b->judge, q, n, out, size, &d);

	if (d.denied) {
		struct judge_record r = {.event = "dns",
					 .reason = d.reason,
					 .rule = d.rule,
					 .transport = "udp",
					 .asked = d.asked,
					 .asked_n = d.asked_n};

		(void)box_record(b, &r);
	}
	return m;
}

size_t names_answer(struct box *b, const uint8_t *q, size_t n, uint8_t *out, size_t size)
{
	return answer(b, q, n, out, size);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): an iovec has no const */
static void reply(int fd, struct msghdr *asked, uint8_t *p, size_t n)
{
	struct iovec iov = {.iov_base = p, .iov_len = n};
	struct cmsghdr *c = CMSG_FIRSTHDR(asked);
	struct in_pktinfo pi;
	union {
		char space[CMSG_SPACE(sizeof(struct in_pktinfo))];
		struct cmsghdr align;
	} ctl = {{0}};
	struct msghdr m = {.msg_name = asked->msg_name,
			   .msg_namelen = asked->msg_namelen,
			   .msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &ctl,
			   .msg_controllen = sizeof(ctl)};

	if (c == NULL || c->cmsg_level != IPPROTO_IP || c->cmsg_type != IP_PKTINFO ||
	    c->cmsg_len < CMSG_LEN(sizeof(pi)))
		return;
	memcpy(&pi, CMSG_DATA(c), sizeof(pi));
	pi.ipi_spec_dst = pi.ipi_addr; /* the socket is transparent: any source will do */
	pi.ipi_ifindex = 0;
	ctl.align.cmsg_level = IPPROTO_IP;
	ctl.align.cmsg_type = IP_PKTINFO;
	ctl.align.cmsg_len = CMSG_LEN(sizeof(pi));
	memcpy(CMSG_DATA(&ctl.align), &pi, sizeof(pi));
	(void)!sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void names_udp(struct box *b)
{
	uint8_t q[QUESTION_MAX], out[ANSWER_MAX];

	for (int i = 0; i < TURN_MAX; i++) {
		union {
			char space[CMSG_SPACE(sizeof(struct in_pktinfo))];
			struct cmsghdr align;
		} ctl;
		struct sockaddr_in from;
		struct iovec iov = {.iov_base = q, .iov_len = sizeof(q)};
		struct msghdr m = {.msg_name = &from,
				   .msg_namelen = sizeof(from),
				   .msg_iov = &iov,
				   .msg_iovlen = 1,
				   .msg_control = &ctl,
				   .msg_controllen = sizeof(ctl)};
		ssize_t n = recvmsg(b->sock[NET_DNS4].fd, &m, MSG_DONTWAIT);
		size_t len;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return;
		if ((m.msg_flags & MSG_TRUNC) != 0)
			continue;
		len = answer(b, q, (size_t)n, out, sizeof(out));
		if (len > 0)
			reply(b->sock[NET_DNS4].fd, &m, out, len);
	}
	b->loop->again = true;
}

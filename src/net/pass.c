#include "net/net.h"

#include "sys/raw.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/*
 * The sockets' way out of the namespace: one message of one byte per kind, 1 where the socket is there,
 * with the descriptors as SCM_RIGHTS (unix(7)). Both ends are ours.
 */

union rights {
	char space[CMSG_SPACE(NET_SOCKS * sizeof(int))];
	struct cmsghdr align;
};

int net_send(int sock, const struct net_socks *s)
{
	union rights ctl = {{0}};
	char there[NET_SOCKS] = {0};
	struct iovec iov = {.iov_base = there, .iov_len = sizeof(there)};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	int fds[NET_SOCKS] = {0};
	size_t n = 0;

	for (int i = 0; i < NET_SOCKS; i++) {
		there[i] = s->fd[i] >= 0;
		if (s->fd[i] >= 0)
			fds[n++] = s->fd[i];
	}
	ctl.align.cmsg_level = SOL_SOCKET;
	ctl.align.cmsg_type = SCM_RIGHTS;
	ctl.align.cmsg_len = (socklen_t)CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(&ctl.align), fds, n * sizeof(int));
	if (n > 0) {
		m.msg_control = &ctl;
		m.msg_controllen = (socklen_t)CMSG_SPACE(n * sizeof(int));
	}
	return sendmsg(sock, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int net_take(int sock, struct net_socks *ret)
{
	union rights ctl = {{0}};
	char there[NET_SOCKS] = {0};
	struct iovec iov = {.iov_base = there, .iov_len = sizeof(there)};
	struct msghdr m = {
	    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ctl, .msg_controllen = sizeof(ctl)};
	int fds[NET_SOCKS] = {0};
	size_t n = 0, want = 0, at = 0;
	long got;

	do
		got = raw_call(SYS_recvmsg, sock, (long)&m, MSG_CMSG_CLOEXEC, 0, 0);
	while (got == -EINTR);
	for (int i = 0; i < NET_SOCKS; i++)
		ret->fd[i] = -1;
	if (got <= 0)
		return got == 0 ? -EPIPE : (int)got;
	if (m.msg_controllen >= CMSG_LEN(0) && ctl.align.cmsg_level == SOL_SOCKET &&
	    ctl.align.cmsg_type == SCM_RIGHTS)
		n = (ctl.align.cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(fds, CMSG_DATA(&ctl.align), n * sizeof(int));
	for (int i = 0; got == (long)sizeof(there) && i < NET_SOCKS; i++)
		want += there[i] != 0;
	if (got != (long)sizeof(there) || want != n || (m.msg_flags & MSG_CTRUNC) != 0) {
		while (n > 0)
			raw_close(fds[--n]);
		return -EPROTO;
	}
	for (int i = 0; i < NET_SOCKS; i++)
		if (there[i] != 0)
			ret->fd[i] = fds[at++];
	return 0;
}

/*
 * Takes a descriptor out of a connected socket the caller left open (SCM_RIGHTS).
 *
 * group: descriptors
 * tries: receive a host descriptor through a leaked connected socket, and read it
 * control: plain
 * leak: socket
 * shows: canary-read
 */
#include <sys/socket.h>

#include "attack.h"

static long take(int s, char *text, size_t size)
{
	char data[64], control[CMSG_SPACE(sizeof(int))];
	struct iovec v = {.iov_base = data, .iov_len = sizeof(data)};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *c;
	int fd = -1;
	ssize_t n;

	if (recvmsg(s, &m, MSG_DONTWAIT) < 0 || !(c = CMSG_FIRSTHDR(&m)) || c->cmsg_type != SCM_RIGHTS)
		return -1;
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	n = pread(fd, text, size - 1, 0);
	text[n < 0 ? 0 : n] = 0;
	return n;
}

int main(int argc, char **argv)
{
	char text[128] = "";
	long r = -1;

	(void)argc;
	(void)argv;
	errno = ENOTCONN;
	for (int fd = 3; fd < 4096 && r < 0; fd++)
		r = take(fd, text, sizeof(text));
	if (r < 0)
		refused("descriptor", errno);
	else
		got("descriptor", text);
	return ended();
}

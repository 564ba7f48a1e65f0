/*
 * Talks to the host's UNIX sockets and takes the descriptors they hand out.
 *
 * group: sockets
 * tries: connect to the host's abstract and named UNIX sockets, and take a descriptor from there (SCM_RIGHTS)
 * control: plain
 * shows: socket canary-read
 */
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "attack.h"

/* Connects, takes one message with one descriptor, reads it into text. */
static long visit(const struct sockaddr_un *a, socklen_t len, char *text, size_t size, long *fd_r)
{
	char data[64], control[CMSG_SPACE(sizeof(int))];
	struct iovec v = {.iov_base = data, .iov_len = sizeof(data)};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *c;
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = -1;
	ssize_t n;

	if (s < 0 || connect(s, (const struct sockaddr *)a, len) < 0)
		return -1;
	if (recvmsg(s, &m, 0) >= 0 && (c = CMSG_FIRSTHDR(&m)) && c->cmsg_type == SCM_RIGHTS) {
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
		n = pread(fd, text, size - 1, 0);
		*fd_r = n;
		text[n < 0 ? 0 : n] = 0;
	}
	(void)close(s);
	return 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	char text[128] = "";
	long fd = -1;
	const char *name = param(argv, "abstract");

	(void)argc;
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", param(argv, "sock"));
	tried("path", visit(&a, sizeof(a), text, sizeof(text), &fd));
	memset(a.sun_path, 0, sizeof(a.sun_path));
	(void)snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "%s", name);
	tried("abstract", visit(&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name)), text, sizeof(text), &fd));
	errno = ENOTCONN;
	if (fd > 0)
		got("descriptor", text);
	else
		refused("descriptor", errno);
	return ended();
}

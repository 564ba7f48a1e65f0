#include "relay/upsock.h"

#include "base/num.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static struct {
	int family, fd; /* fd -1 = there is none */
	bool wanted;
} spare[] = {{.family = AF_INET, .fd = -1}, {.family = AF_INET6, .fd = -1}}; /* of the one thread */

static int make(int family)
{
	const struct linger reset = {.l_onoff = 1}; /* see flow.c */
	const int one = 1;
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	return fd;
}

int upsock_take(int family)
{
	for (size_t i = 0; i < ARRAY_LEN(spare); i++) {
		int fd = spare[i].fd;

		if (spare[i].family != family)
			continue;
		spare[i].fd = -1;
		spare[i].wanted = true;
		if (fd >= 0)
			return fd;
	}
	return make(family);
}

bool upsock_wanted(void) { return spare[0].wanted || spare[1].wanted; }

void upsock_make(void)
{
	for (size_t i = 0; i < ARRAY_LEN(spare); i++) {
		if (spare[i].wanted)
			spare[i].fd = make(spare[i].family);
		spare[i].wanted = false;
	}
}

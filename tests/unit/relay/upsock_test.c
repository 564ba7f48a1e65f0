#include "relay/upsock.h"

#include "harness/test.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

/* Sockets to dial with: as they have to be, whether they were made ahead or not. */

static bool good(int fd, int family)
{
	struct linger l = {0};
	int one = 0, is = 0;
	socklen_t n = sizeof(one), m = sizeof(l), k = sizeof(is);

	return fd >= 0 && getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, &n) == 0 && one != 0 &&
	       getsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &m) == 0 && l.l_onoff != 0 && l.l_linger == 0 &&
	       getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &is, &k) == 0 && is == family &&
	       (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0;
}

TEST(one_is_made_ahead_of_what_is_used)
{
	int a, b, c;

	CHECK(!upsock_wanted());
	a = upsock_take(AF_INET);
	CHECK(good(a, AF_INET) && upsock_wanted());
	upsock_make();
	CHECK(!upsock_wanted());
	b = upsock_take(AF_INET);
	c = upsock_take(AF_INET); /* the next before there was time */
	CHECK(good(b, AF_INET) && good(c, AF_INET) && a != b && b != c && upsock_wanted());
	(void)close(a);
	(void)close(b);
	(void)close(c);
	upsock_make();
	(void)close(upsock_take(AF_INET));
}

TEST_MAIN()

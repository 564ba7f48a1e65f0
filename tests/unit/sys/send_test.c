#include "sys/send.h"

#include "base/cleanup.h"
#include "harness/test.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TEST(as_far_as_it_goes)
{
	static char big[4 << 20], got[1 << 16];
	int fd[2];
	struct buf b;
	size_t sum = 0;
	ssize_t n;

	memset(big, 'x', sizeof(big));
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0);
	buf_init(&b, sizeof(big));
	CHECK(buf_send(&b, fd[0]) == 0); /* nothing */
	CHECK(buf_put(&b, big, sizeof(big)) == 0);
	CHECK(buf_send(&b, fd[0]) == 0);
	CHECK(b.len > 0 && b.len < sizeof(big)); /* the socket is full, and nobody waited */
	while (sum < sizeof(big)) {
		n = recv(fd[1], got, sizeof(got), MSG_DONTWAIT);
		if (n > 0)
			sum += (size_t)n;
		CHECK(n > 0 || errno == EAGAIN);
		CHECK(buf_send(&b, fd[0]) == 0);
	}
	CHECK(b.len == 0);
	(void)close(fd[1]);
	CHECK(buf_put(&b, "x", 1) == 0);
	CHECK(buf_send(&b, fd[0]) == -EPIPE);
	buf_done(&b);
	(void)close(fd[0]);
}

TEST_MAIN()

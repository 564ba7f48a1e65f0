#include "guest/peer.h"
#include "harness/test.h"

#include <sys/socket.h>
#include <unistd.h>

enum { NOW = 1000000000, BARE = FRAME_HDR };

/* Bytes that have arrived at the host, which takes them. */
static ssize_t arrived(int fd)
{
	char b[4096];

	return recv(fd, b, sizeof(b), MSG_DONTWAIT);
}

TEST(late_frames_wait_for_the_next)
{
	struct peer p;
	int fd[2], wait = -1;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0);
	peer_init(&p, fd[0]);
	peer_send_late(&p, FRAME_EOF, 1, CHAN_OUT, NULL, 0);
	CHECK(peer_flush_due(&p, NOW, &wait) == 0 && arrived(fd[1]) < 0);
	CHECK(wait == 4);
	peer_send_late(&p, FRAME_EOF, 1, CHAN_ERR, NULL, 0);
	wait = 1;
	CHECK(peer_flush_due(&p, NOW + 1, &wait) == 0 && arrived(fd[1]) < 0);
	CHECK(wait == 1);
	peer_send(&p, FRAME_PONG, 0, 0, "12345678", 8);
	CHECK(!p.may_wait);
	CHECK(peer_flush_due(&p, NOW + 2, &wait) == 0 && arrived(fd[1]) == 3 * BARE + 8);
	peer_done(&p);
	(void)close(fd[0]);
	(void)close(fd[1]);
}

TEST(late_frames_wait_from_the_first_and_not_for_ever)
{
	struct peer p;
	int fd[2], wait = -1;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0);
	peer_init(&p, fd[0]);
	for (int round = 0; round < 2; round++) {
		uint64_t begin = NOW + (uint64_t)round * 10 * PEER_WAIT_NS;

		peer_send_late(&p, FRAME_EOF, 1, CHAN_OUT, NULL, 0);
		CHECK(peer_flush_due(&p, begin, &wait) == 0);
		peer_send_late(&p, FRAME_EOF, 1, CHAN_ERR, NULL, 0);
		CHECK(peer_flush_due(&p, begin + PEER_WAIT_NS - 1, &wait) == 0 && arrived(fd[1]) < 0);
		CHECK(peer_flush_due(&p, begin + PEER_WAIT_NS, &wait) == 0 && arrived(fd[1]) == 2 * BARE);
	}
	peer_done(&p);
	(void)close(fd[0]);
	(void)close(fd[1]);
}

TEST(late_frames_hold_up_nothing)
{
	struct peer p;
	int fd[2], wait = -1;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0);
	peer_init(&p, fd[0]);
	peer_send(&p, FRAME_PONG, 0, 0, "12345678", 8);
	peer_send_late(&p, FRAME_EOF, 1, CHAN_OUT, NULL, 0);
	CHECK(peer_flush_due(&p, NOW, &wait) == 0 && arrived(fd[1]) == 2 * BARE + 8);
	peer_send_late(&p, FRAME_EOF, 1, CHAN_OUT, NULL, 0);
	peer_urgent(&p);
	CHECK(peer_flush_due(&p, NOW, &wait) == 0 && arrived(fd[1]) == BARE);
	CHECK(wait == -1);
	peer_done(&p);
	(void)close(fd[0]);
	(void)close(fd[1]);
}
TEST_MAIN()

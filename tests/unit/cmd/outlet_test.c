#include "cmd/outlet.h"
#include "cli/inlet.h"
#include "harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BIG = 300000 };
static uint8_t big[BIG];

static void drain_into(int fd, size_t *got)
{
	uint8_t b[65536];
	ssize_t n;

	while ((n = read(fd, b, sizeof(b))) > 0)
		*got += (size_t)n;
}

/* Push BIG bytes through an outlet into dst; rd is the other end, drained when it is full. */
static size_t push(int dst, int rd)
{
	size_t sent = 0, got = 0;
	struct outlet o;
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0 || fcntl(p[1], F_SETFL, O_NONBLOCK) < 0 ||
	    fcntl(rd, F_SETFL, O_NONBLOCK) < 0)
		return 0;
	outlet_init(&o, dst, 0);
	o.src_fd = p[0];
	while (sent < BIG || o.src_fd >= 0) {
		ssize_t n = sent < BIG ? write(p[1], big + sent, BIG - sent) : 0;

		if (n > 0)
			sent += (size_t)n;
		if (sent == BIG && p[1] >= 0) {
			(void)close(p[1]);
			p[1] = -1;
		}
		outlet_pump(&o);
		if (o.blocked || o.src_fd < 0)
			drain_into(rd, &got);
	}
	while (!o.finished) {
		outlet_pump(&o);
		drain_into(rd, &got);
	}
	drain_into(rd, &got);
	if (o.bytes != BIG || o.error != 0)
		got = 0;
	outlet_done(&o);
	return got;
}

TEST(a_full_pipe_blocks_and_loses_nothing)
{
	int p[2];

	CHECK(pipe2(p, O_CLOEXEC) == 0);
	CHECK(push(p[1], p[0]) == BIG);
	(void)close(p[0]);
	(void)close(p[1]);
}

TEST(a_full_socket_blocks_and_loses_nothing)
{
	int p[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p) == 0);
	CHECK(push(p[1], p[0]) == BIG);
	(void)close(p[0]);
	(void)close(p[1]);
}

TEST(an_appending_file_is_copied)
{
	char path[] = "/tmp/brig-outlet-XXXXXX";
	int fd = mkstemp(path), ap, rd;

	CHECK(fd >= 0);
	ap = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	rd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(ap >= 0 && rd >= 0);
	CHECK(push(ap, rd) == BIG);
	(void)close(fd);
	(void)close(ap);
	(void)close(rd);
	(void)unlink(path);
}

TEST(a_closed_reader_is_an_error_and_the_rest_is_dropped)
{
	struct outlet o;
	int src[2], dst[2];

	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	CHECK(pipe2(src, O_CLOEXEC) == 0 && pipe2(dst, O_CLOEXEC) == 0);
	outlet_init(&o, dst[1], 0);
	o.src_fd = src[0];
	(void)close(dst[0]);
	CHECK(write(src[1], "abc", 3) == 3);
	outlet_pump(&o);
	CHECK(o.error == EPIPE);
	(void)close(src[1]);
	outlet_pump(&o);
	CHECK(o.finished);
	(void)close(dst[1]);
	outlet_done(&o);
}

TEST(the_last_bytes_and_no_more)
{
	struct outlet o;
	struct pollfd pf;
	int p[2];

	CHECK(pipe2(p, O_CLOEXEC) == 0);
	outlet_init(&o, -1, 1000);
	o.src_fd = p[0];
	CHECK(write(p[1], "hi\n", 3) == 3);
	outlet_last(&o); /* p[1] stays open: a background process */
	CHECK(o.finished && o.kept.len == 3 && memcmp(buf_head(&o.kept), "hi\n", 3) == 0);
	outlet_want(&o, &pf);
	CHECK(pf.fd == -1);
	(void)close(p[1]);
	outlet_done(&o);
}

TEST(capture_is_bounded_and_counts_all)
{
	struct outlet o;

	outlet_init(&o, -1, 1000);
	CHECK(outlet_take(&o, big, 700) == 700 && outlet_take(&o, big, 700) == 700);
	CHECK(o.bytes == 1400 && o.kept.len == 1000 && outlet_truncated(&o));
	outlet_done(&o);
}

TEST(framed_bytes_fill_the_pipe_before_they_block)
{
	struct outlet o;
	size_t got = 0;
	int p[2];

	CHECK(pipe2(p, O_CLOEXEC) == 0);
	outlet_init(&o, p[1], 0);
	CHECK(outlet_take(&o, big, 5000) == 5000 && !o.blocked); /* more than one piece */
	CHECK(outlet_take(&o, big, BIG) < BIG && o.blocked);
	CHECK(fcntl(p[0], F_SETFL, O_NONBLOCK) == 0);
	drain_into(p[0], &got);
	CHECK(got == o.bytes);
	(void)close(p[0]);
	(void)close(p[1]);
	outlet_done(&o);
}

TEST(input_reaches_the_pipe_and_ends_it)
{
	struct inlet i;
	struct pollfd a, b;
	int src[2], dst[2];
	char got[8];

	CHECK(pipe2(src, O_CLOEXEC) == 0 && pipe2(dst, O_CLOEXEC) == 0);
	inlet_init(&i);
	inlet_to_pipe(&i, src[0], dst[1]);
	CHECK(write(src[1], "abc", 3) == 3);
	inlet_pump(&i);
	CHECK(read(dst[0], got, sizeof(got)) == 3 && memcmp(got, "abc", 3) == 0);
	(void)close(src[1]);
	inlet_pump(&i);
	CHECK(read(dst[0], got, sizeof(got)) == 0);
	inlet_want(&i, &a, &b);
	CHECK(a.fd == -1 && b.fd == -1);
	inlet_done(&i);
	(void)close(src[0]);
	(void)close(dst[0]);
}

TEST(input_from_a_socket_waits_for_a_full_pipe)
{
	size_t sent = 0, got = 0;
	struct inlet i;
	int src[2], dst[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, src) == 0);
	CHECK(pipe2(dst, O_CLOEXEC) == 0 && fcntl(dst[0], F_SETFL, O_NONBLOCK) == 0);
	inlet_init(&i);
	inlet_to_pipe(&i, src[0], dst[1]);
	while (got < BIG) {
		ssize_t n = sent < BIG ? write(src[1], big + sent, BIG - sent) : 0;

		if (n > 0)
			sent += (size_t)n;
		inlet_pump(&i);
		if (i.blocked || sent == BIG)
			drain_into(dst[0], &got);
	}
	CHECK(got == BIG);
	inlet_done(&i);
	(void)close(src[0]);
	(void)close(src[1]);
	(void)close(dst[0]);
}
/* Others may have taken what poll(2) announced: waiting for room in the destination would spin. */
TEST(what_others_took_is_not_a_full_destination)
{
	struct pollfd src, dst;
	struct outlet o;
	struct inlet in;
	int from[2], to[2], far[2];

	CHECK(pipe(from) == 0 && pipe(to) == 0 && pipe(far) == 0);
	outlet_init(&o, to[1], 0);
	o.src_fd = from[0];
	outlet_pump(&o);
	outlet_want(&o, &src);
	CHECK(src.fd == from[0] && src.events == POLLIN && !o.finished);

	inlet_init(&in);
	inlet_to_pipe(&in, to[0], far[1]);
	inlet_pump(&in);
	inlet_want(&in, &src, &dst);
	CHECK(src.fd == to[0] && dst.events == 0);

	inlet_done(&in);
	outlet_done(&o);
	(void)close(from[1]);
	(void)close(to[0]);
	(void)close(to[1]);
	(void)close(far[0]);
}

TEST_MAIN()

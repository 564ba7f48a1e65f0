#include "base/cleanup.h"
#include "harness/test.h"
#include "unit/session/fake_agent.h"

TEST(hello_and_request_leave_without_waiting)
{
	struct fake f;
	struct frame fr;
	int fd = fake_new(&f);

	CHECK(fd >= 0 && fake_open(&f, 10) == 0);
	/* nothing was polled yet */
	CHECK(fake_next(&f, &fr) && fr.type == FRAME_HELLO && fr.len == HELLO_LEN);
	CHECK(fake_next(&f, &fr) && fr.type == FRAME_OPEN && fr.len == 10 && fr.stream == 1);
	CHECK(!fake_next(&f, &fr));
	CHECK(session_events(f.s) == POLLIN);
	fake_done(&f, fd);
}

TEST(one_exec_from_start_to_result)
{
	struct fake f;
	int fd = fake_new(&f);

	CHECK(fake_open(&f, 10) == 0);
	fake_hello(&f);
	fake_u32(&f, FRAME_START, 1, 0, 7);
	fake_send(&f, FRAME_DATA, 1, CHAN_OUT, "hello", 5);
	fake_send(&f, FRAME_DATA, 1, CHAN_ERR, "oops", 4);
	fake_send(&f, FRAME_EOF, 1, CHAN_OUT, NULL, 0);
	fake_send(&f, FRAME_EOF, 1, CHAN_ERR, NULL, 0);
	fake_result(&f, 1, HOW_EXIT, 3);
	CHECK(fake_run(&f, fd) == 0);
	CHECK(strcmp(f.log.text, "started-7 data err eof eof-err result ") == 0);
	CHECK(f.log.res.how == HOW_EXIT && f.log.res.code == 3);
	CHECK(session_streams(f.s) == 0);
	fake_done(&f, fd);
}

TEST(result_waits_until_a_stalled_consumer_took_all)
{
	struct fake f;
	int fd = fake_new(&f);

	CHECK(fake_open(&f, 10) == 0);
	fake_hello(&f);
	f.log.take = 2;
	fake_send(&f, FRAME_DATA, 1, CHAN_OUT, "hello", 5);
	fake_send(&f, FRAME_EOF, 1, CHAN_OUT, NULL, 0);
	fake_result(&f, 1, HOW_EXIT, 0);
	CHECK(fake_run(&f, fd) == 0);
	CHECK(strcmp(f.log.text, "data ") == 0 && f.log.bytes.len == 2);
	stream_resume(f.log.st, CHAN_OUT);
	CHECK(f.log.bytes.len == 4 && f.log.results == 0);
	f.log.take = SSIZE_MAX;
	stream_resume(f.log.st, CHAN_OUT);
	CHECK(strcmp(f.log.text, "data data data eof result ") == 0);
	CHECK(memcmp(buf_head(&f.log.bytes), "hello", 5) == 0);
	fake_done(&f, fd);
}

TEST(a_finished_result_survives_the_agents_death)
{
	struct fake f;
	int fd = fake_new(&f);

	CHECK(fake_open(&f, 10) == 0 && fake_open(&f, 10) == 0);
	fake_hello(&f);
	f.log.take = 0;
	fake_send(&f, FRAME_DATA, 2, CHAN_OUT, "hello", 5);
	fake_result(&f, 2, HOW_EXIT, 9);
	(void)close(f.fd);
	f.fd = -1;
	CHECK(fake_run(&f, fd) == -EPIPE);
	CHECK(f.e.kind == ERR_LOST);
	CHECK(strcmp(f.log.text, "data result-error ") == 0 && f.log.res.err == EPIPE);
	CHECK(session_streams(f.s) == 1 && session_events(f.s) == 0);
	CHECK(session_io(f.s, POLLIN, NULL) == -EPIPE);
	f.log.take = SSIZE_MAX;
	f.log.st = NULL;
	fake_done(&f, fd);
}

TEST(kept_bytes_are_offered_once_more_when_the_agent_dies)
{
	struct fake f;
	int fd = fake_new(&f);

	CHECK(fake_open(&f, 10) == 0);
	fake_hello(&f);
	f.log.take = 0;
	fake_send(&f, FRAME_DATA, 1, CHAN_OUT, "hello", 5);
	CHECK(fake_run(&f, fd) == 0);
	f.log.take = SSIZE_MAX;
	(void)close(f.fd);
	f.fd = -1;
	CHECK(fake_run(&f, fd) == -EPIPE);
	CHECK(f.log.bytes.len == 5 && f.log.results == 1 && f.log.res.how == HOW_ERROR);
	fake_done(&f, fd);
}

TEST(credit_comes_back_only_for_bytes_taken)
{
	struct fake f;
	struct frame fr;
	static uint8_t chunk[FRAME_MAX];
	int fd = fake_new(&f);

	CHECK(fake_open(&f, 10) == 0);
	fake_hello(&f);
	CHECK(fake_next(&f, &fr) && fake_next(&f, &fr));
	f.log.take = 0;
	for (int i = 0; i < FRAME_WINDOW / FRAME_MAX; i++) {
		fake_send(&f, FRAME_DATA, 1, CHAN_OUT, chunk, sizeof(chunk));
		CHECK(fake_run(&f, fd) == 0);
	}
	CHECK(!fake_next(&f, &fr));
	/* ERR is not held up by OUT */
	f.log.take = SSIZE_MAX;
	fake_send(&f, FRAME_DATA, 1, CHAN_ERR, chunk, sizeof(chunk));
	CHECK(fake_run(&f, fd) == 0);
	CHECK(fake_next(&f, &fr) && fr.type == FRAME_CREDIT && fr.chan == CHAN_ERR);
	stream_resume(f.log.st, CHAN_OUT);
	CHECK(fake_run(&f, fd) == 0);
	CHECK(fake_next(&f, &fr) && fr.type == FRAME_CREDIT && fr.chan == CHAN_OUT);
	CHECK(load_le32(fr.payload) == FRAME_WINDOW);
	/* and with it the window is whole again, not larger */
	f.log.take = 0;
	for (int i = 0; i < FRAME_WINDOW / FRAME_MAX; i++) {
		fake_send(&f, FRAME_DATA, 1, CHAN_OUT, chunk, sizeof(chunk));
		CHECK(fake_run(&f, fd) == 0);
	}
	fake_send(&f, FRAME_DATA, 1, CHAN_OUT, "x", 1);
	CHECK(fake_run(&f, fd) == -EPROTO);
	fake_done(&f, fd);
}

TEST(a_consumers_failure_becomes_broken)
{
	struct fake f;
	struct frame fr;
	int fd = fake_new(&f);

	CHECK(fake_open(&f, 10) == 0);
	fake_hello(&f);
	f.log.take = -EIO;
	fake_send(&f, FRAME_DATA, 1, CHAN_OUT, "hello", 5);
	fake_send(&f, FRAME_DATA, 1, CHAN_OUT, "hello", 5); /* was on its way: dropped */
	CHECK(fake_run(&f, fd) == 0);
	CHECK(fake_next(&f, &fr) && fake_next(&f, &fr));
	CHECK(fake_next(&f, &fr) && fr.type == FRAME_BROKEN && fr.chan == CHAN_OUT);
	CHECK(load_le32(fr.payload) == EIO && !fake_next(&f, &fr));
	fake_send(&f, FRAME_EOF, 1, CHAN_OUT, NULL, 0);
	fake_result(&f, 1, HOW_DONE, 0);
	CHECK(fake_run(&f, fd) == 0);
	CHECK(strcmp(f.log.text, "data result ") == 0);
	fake_done(&f, fd);
}

TEST(writing_stops_at_the_credit_and_goes_on_with_more)
{
	struct fake f;
	struct frame fr;
	static uint8_t big[2 * FRAME_WINDOW];
	size_t got = 0;
	int fd = fake_new(&f);

	CHECK(fake_open(&f, 10) == 0);
	fake_hello(&f);
	CHECK(fake_next(&f, &fr) && fake_next(&f, &fr));
	CHECK(stream_write(f.log.st, big, sizeof(big)) == FRAME_WINDOW);
	CHECK(stream_write(f.log.st, big, 1) == 0);
	for (int i = 0; i < 100; i++) {
		CHECK(fake_run(&f, fd) == 0);
		while (fake_next(&f, &fr)) {
			CHECK(fr.type == FRAME_DATA && fr.chan == CHAN_IN);
			got += fr.len;
		}
	}
	CHECK(got == FRAME_WINDOW && f.log.writables == 0);
	fake_u32(&f, FRAME_CREDIT, 1, CHAN_IN, 1000);
	CHECK(fake_run(&f, fd) == 0);
	CHECK(f.log.writables == 1);
	CHECK(stream_write(f.log.st, big, sizeof(big)) == 1000);
	fake_u32(&f, FRAME_BROKEN, 1, CHAN_IN, EPIPE);
	CHECK(fake_run(&f, fd) == 0);
	CHECK(strstr(f.log.text, "broken-EPIPE") != NULL);
	CHECK(stream_write(f.log.st, big, 1) == -EPIPE);
	fake_done(&f, fd);
}

TEST(nothing_is_written_after_eof)
{
	struct fake f;
	struct frame fr;
	int fd = fake_new(&f);

	CHECK(fake_open(&f, 10) == 0);
	CHECK(stream_write(f.log.st, "ab", 2) == 2);
	stream_eof(f.log.st);
	stream_eof(f.log.st);
	CHECK(stream_write(f.log.st, "ab", 2) == -EPIPE);
	CHECK(fake_run(&f, fd) == 0);
	CHECK(fake_next(&f, &fr) && fake_next(&f, &fr));
	CHECK(fake_next(&f, &fr) && fr.type == FRAME_DATA && fr.len == 2);
	CHECK(fake_next(&f, &fr) && fr.type == FRAME_EOF && fr.chan == CHAN_IN);
	CHECK(!fake_next(&f, &fr));
	fake_done(&f, fd);
}

TEST(signals_sizes_and_resets_are_sent)
{
	struct fake f;
	struct frame fr;
	int fd = fake_new(&f);

	CHECK(fake_open(&f, 10) == 0);
	stream_signal(f.log.st, 15);
	stream_resize(f.log.st, 41, 99);
	stream_reset(f.log.st);
	CHECK(fake_run(&f, fd) == 0);
	CHECK(fake_next(&f, &fr) && fake_next(&f, &fr));
	CHECK(fake_next(&f, &fr) && fr.type == FRAME_SIGNAL && load_le32(fr.payload) == 15);
	CHECK(fake_next(&f, &fr) && fr.type == FRAME_RESIZE && load_le16(fr.payload) == 41 &&
	      load_le16(fr.payload + 2) == 99);
	CHECK(fake_next(&f, &fr) && fr.type == FRAME_RESET);
	fake_done(&f, fd);
}

TEST(large_requests_are_cut_and_larger_ones_refused)
{
	struct fake f;
	struct frame fr;
	size_t got = 0;
	uint16_t flags = FRAME_F_MORE;
	int fd = fake_new(&f);

	CHECK(fake_open(&f, FRAME_OPEN_MAX + 1) == -E2BIG);
	CHECK(fake_open(&f, FRAME_OPEN_MAX) == 0);
	CHECK(fake_next(&f, &fr) && fr.type == FRAME_HELLO);
	for (int i = 0; i < 10000 && got < FRAME_OPEN_MAX; i++) {
		CHECK(fake_run(&f, fd) == 0);
		while (fake_next(&f, &fr)) {
			CHECK(fr.type == FRAME_OPEN && fr.stream == 1 && flags == FRAME_F_MORE);
			flags = fr.flags;
			got += fr.len;
		}
	}
	CHECK(got == FRAME_OPEN_MAX && flags == 0);
	fake_done(&f, fd);
}

/* Receive into the fake's buffer with descriptors; how many came, the first in *ret. */
static int recv_fds(struct fake *f, int *ret)
{
	char ctl[CMSG_SPACE(sizeof(int) * 16)] __attribute__((aligned(8)));
	int n = 0;

	*ret = -1;
	for (;;) {
		struct iovec iov = {.iov_base = buf_reserve(&f->in, 65536), .iov_len = 65536};
		struct msghdr mh = {.msg_iov = &iov,
				    .msg_iovlen = 1,
				    .msg_control = ctl,
				    .msg_controllen = sizeof(ctl)};
		ssize_t r = recvmsg(f->fd, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

		if (r <= 0)
			return n;
		buf_commit(&f->in, (size_t)r);
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&mh); c; c = CMSG_NXTHDR(&mh, c)) {
			size_t k = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

			for (size_t i = 0; i < k; i++) {
				int fd;

				memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
				if (n++ == 0)
					*ret = fd;
				else
					(void)close(fd);
			}
		}
	}
}

TEST(descriptors_arrive_with_their_request)
{
	struct fake f;
	struct frame fr;
	struct buf req = {.max = 64};
	_cleanup_close_ int got = -1;
	int fd = fake_new(&f), p[2];
	char c = 0;

	CHECK(pipe2(p, O_CLOEXEC) == 0 && buf_put(&req, "req", 3) == 0);
	CHECK(session_open(f.s, &req, (int[]){p[1], p[1], p[0]}, 3, &log_ops, &f.log, NULL, &f.e) ==
	      0);
	(void)close(p[1]);
	CHECK(recv_fds(&f, &got) == 3);
	CHECK(fake_next(&f, &fr) && fr.type == FRAME_HELLO);
	CHECK(fake_next(&f, &fr) && fr.type == FRAME_OPEN && fr.flags == FRAME_F_FDS);
	CHECK(write(got, "x", 1) == 1 && read(p[0], &c, 1) == 1 && c == 'x');
	(void)close(p[0]);
	buf_done(&req);
	fake_done(&f, fd);
}

TEST(descriptors_queued_behind_a_full_socket_are_kept)
{
	struct fake f;
	struct frame fr;
	struct buf req = {.max = 64};
	_cleanup_close_ int got = -1;
	int fd = fake_new(&f), p[2], n = 0;
	size_t opens = 0;
	char c = 0;

	CHECK(pipe2(p, O_CLOEXEC) == 0 && buf_put(&req, "req", 3) == 0);
	CHECK(fake_open(&f, 1 << 20) == 0); /* fills the socket */
	CHECK(session_open(f.s, &req, (int[]){p[1]}, 1, NULL, NULL, NULL, &f.e) == 0);
	(void)close(p[1]); /* the caller's: ours must outlive it */
	for (int i = 0; i < 1000 && n == 0; i++) {
		n = recv_fds(&f, &got);
		CHECK(fake_run(&f, fd) == 0);
	}
	CHECK(n == 1);
	while (fake_next(&f, &fr)) {
		opens++;
		CHECK((fr.flags & FRAME_F_FDS) == 0 || fr.stream == 2);
	}
	CHECK(opens > 16 && fr.stream == 2);
	CHECK(write(got, "x", 1) == 1 && read(p[0], &c, 1) == 1 && c == 'x');
	(void)close(got);
	got = -1;
	CHECK(read(p[0], &c, 1) == 0); /* no copy stayed behind */
	(void)close(p[0]);
	buf_done(&req);
	fake_done(&f, fd);
}

TEST(callbacks_may_open_and_free)
{
	struct fake f;
	int fd = fake_new(&f);

	CHECK(fake_open(&f, 10) == 0);
	fake_hello(&f);
	f.log.open_in_result = true;
	fake_result(&f, 1, HOW_DONE, 0);
	CHECK(fake_run(&f, fd) == 0);
	CHECK(strcmp(f.log.text, "result opened ") == 0);
	CHECK(session_streams(f.s) == 1);
	CHECK(fake_open(&f, 10) == 0);
	f.log.free_in_result = true;
	fake_result(&f, 3, HOW_DONE, 0);
	fake_result(&f, 2, HOW_DONE, 0); /* its stream must get nothing any more */
	CHECK(fake_run(&f, fd) == -ECANCELED);
	CHECK(strcmp(f.log.text, "result opened result ") == 0);
	fake_done(&f, fd);
}

TEST(a_callback_that_resumes_itself_does_not_spin)
{
	struct fake f;
	int fd = fake_new(&f);

	CHECK(fake_open(&f, 10) == 0);
	fake_hello(&f);
	f.log.take = 1;
	f.log.resume_in_data = true;
	fake_send(&f, FRAME_DATA, 1, CHAN_OUT, "hello", 5);
	fake_result(&f, 1, HOW_DONE, 0);
	CHECK(fake_run(&f, fd) == 0);
	CHECK(strcmp(f.log.text, "data data data data data result ") == 0);
	fake_done(&f, fd);
}

TEST(a_thousand_streams_and_not_one_more)
{
	struct fake f;
	struct frame fr;
	int fd = fake_new(&f);

	for (int i = 0; i < 1024; i++) {
		CHECK(fake_open(&f, 10) == 0);
		CHECK(fake_run(&f, fd) == 0);
		while (fake_next(&f, &fr))
			;
	}
	CHECK(fake_open(&f, 10) == -EMFILE);
	fake_hello(&f);
	fake_result(&f, 500, HOW_DONE, 0);
	CHECK(fake_run(&f, fd) == 0);
	CHECK(fake_open(&f, 10) == 0);
	CHECK(stream_id(f.log.st) > 1024); /* ids are not used twice */
	fake_done(&f, fd);
}

TEST(requests_an_agent_never_reads_are_bounded)
{
	struct fake f;
	int fd = fake_new(&f), n = 0, r = 0;

	while (n < 100 && (r = fake_open(&f, FRAME_OPEN_MAX)) == 0)
		n++;
	CHECK(r == -ENOBUFS && n < 5);
	fake_done(&f, fd);
}

TEST(ping_is_answered)
{
	struct fake f;
	struct frame fr;
	int fd = fake_new(&f);

	fake_hello(&f);
	fake_send(&f, FRAME_PING, 0, 0, "abcdefgh", 8);
	CHECK(fake_run(&f, fd) == 0);
	CHECK(fake_next(&f, &fr) && fr.type == FRAME_HELLO);
	CHECK(fake_next(&f, &fr) && fr.type == FRAME_PONG && memcmp(fr.payload, "abcdefgh", 8) == 0);
	fake_done(&f, fd);
}
TEST_MAIN()

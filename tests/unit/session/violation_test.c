#include "harness/test.h"
#include "unit/session/fake_agent.h"

/* Each thing an agent may not do ends the session, tells every open stream, and says why. */

typedef void act_fn(struct fake *f);

/* A session with streams 1 and 2 open and both HELLOs exchanged; the act must be refused. */
static bool refused(act_fn *act, const char *why)
{
	struct fake f;
	int fd = fake_new(&f), r;
	bool ok;

	if (fake_open(&f, 10) < 0 || fake_open(&f, 10) < 0)
		abort();
	fake_hello(&f);
	act(&f);
	r = fake_run(&f, fd);
	ok = r == -EPROTO && f.e.kind == ERR_LOST && strstr(f.e.msg, why) != NULL &&
	     session_streams(f.s) == 0 && f.log.results >= 1 && session_events(f.s) == 0 &&
	     fake_open(&f, 10) == -EPIPE;
	if (!ok)
		printf("# got %d '%s' after '%s'\n", r, f.e.msg, f.log.text);
	fake_done(&f, fd);
	return ok;
}

static void unknown_stream(struct fake *f) { fake_send(f, FRAME_DATA, 3, CHAN_OUT, "x", 1); }
static void same_slot(struct fake *f) { fake_send(f, FRAME_DATA, 1 + 1024, CHAN_OUT, "x", 1); }
static void closed_stream(struct fake *f)
{
	fake_result(f, 1, HOW_DONE, 0);
	fake_send(f, FRAME_DATA, 1, CHAN_OUT, "x", 1);
}
static void result_twice(struct fake *f)
{
	fake_result(f, 1, HOW_DONE, 0);
	fake_result(f, 1, HOW_DONE, 0);
}
static void start_twice(struct fake *f)
{
	fake_u32(f, FRAME_START, 1, 0, 5);
	fake_u32(f, FRAME_START, 1, 0, 5);
}
static void data_after_eof(struct fake *f)
{
	fake_send(f, FRAME_EOF, 1, CHAN_OUT, NULL, 0);
	fake_send(f, FRAME_DATA, 1, CHAN_OUT, "x", 1);
}
static void eof_twice(struct fake *f)
{
	fake_send(f, FRAME_EOF, 1, CHAN_ERR, NULL, 0);
	fake_send(f, FRAME_EOF, 1, CHAN_ERR, NULL, 0);
}
static void data_on_in(struct fake *f) { fake_send(f, FRAME_DATA, 1, CHAN_IN, "x", 1); }
static void eof_on_in(struct fake *f) { fake_send(f, FRAME_EOF, 1, CHAN_IN, NULL, 0); }
static void credit_on_out(struct fake *f) { fake_u32(f, FRAME_CREDIT, 1, CHAN_OUT, 1); }
static void much_credit(struct fake *f) { fake_u32(f, FRAME_CREDIT, 1, CHAN_IN, FRAME_CREDIT_MAX); }
static void all_credit(struct fake *f) { fake_u32(f, FRAME_CREDIT, 1, CHAN_IN, UINT32_MAX); }
static void credit_in_parts(struct fake *f)
{
	for (int i = 0; i < 4; i++)
		fake_u32(f, FRAME_CREDIT, 1, CHAN_IN, FRAME_WINDOW);
}
static void broken_twice(struct fake *f)
{
	fake_u32(f, FRAME_BROKEN, 1, CHAN_IN, EPIPE);
	fake_u32(f, FRAME_BROKEN, 1, CHAN_IN, EPIPE);
}
static void broken_on_out(struct fake *f) { fake_u32(f, FRAME_BROKEN, 1, CHAN_OUT, EPIPE); }
static void broken_without_errno(struct fake *f) { fake_u32(f, FRAME_BROKEN, 1, CHAN_IN, 0); }
static void hello_twice(struct fake *f) { fake_hello(f); }
static void pong(struct fake *f) { fake_send(f, FRAME_PONG, 0, 0, "12345678", 8); }
static void wrong_direction(struct fake *f) { fake_u32(f, FRAME_SIGNAL, 1, 0, 9); }
static void open_from_agent(struct fake *f) { fake_send(f, FRAME_OPEN, 9, 0, "x", 1); }
static void bad_header(struct fake *f) { (void)!write(f->fd, "\377\377\377\377............", 16); }

TEST(frames_for_streams_that_are_not_open)
{
	CHECK(refused(unknown_stream, "not open"));
	CHECK(refused(same_slot, "not open"));
	CHECK(refused(closed_stream, "not open"));
	CHECK(refused(result_twice, "not open"));
}
TEST(nothing_follows_a_result_that_waits)
{
	struct fake f;
	int fd = fake_new(&f);

	CHECK(fake_open(&f, 10) == 0);
	fake_hello(&f);
	f.log.take = 0;
	fake_send(&f, FRAME_DATA, 1, CHAN_OUT, "x", 1);
	fake_result(&f, 1, HOW_DONE, 0);
	CHECK(fake_run(&f, fd) == 0 && session_streams(f.s) == 1);
	fake_send(&f, FRAME_DATA, 1, CHAN_OUT, "x", 1);
	CHECK(fake_run(&f, fd) == -EPROTO && strstr(f.e.msg, "after RESULT") != NULL);
	CHECK(session_streams(f.s) == 1 && f.log.results == 0); /* the true result is not lost */
	f.log.take = SSIZE_MAX;
	stream_resume(f.log.st, CHAN_OUT);
	CHECK(f.log.results == 1 && f.log.res.how == HOW_DONE && session_streams(f.s) == 0);
	fake_done(&f, fd);
}
TEST(things_that_happen_once)
{
	CHECK(refused(start_twice, "START twice"));
	CHECK(refused(eof_twice, "EOF twice"));
	CHECK(refused(broken_twice, "twice"));
	CHECK(refused(hello_twice, "second HELLO"));
	CHECK(refused(data_after_eof, "after EOF"));
}
TEST(channels_and_directions)
{
	CHECK(refused(data_on_in, "wrong channel"));
	CHECK(refused(eof_on_in, "wrong channel"));
	CHECK(refused(credit_on_out, "wrong channel"));
	CHECK(refused(broken_on_out, "wrong channel"));
	CHECK(refused(wrong_direction, "header"));
	CHECK(refused(open_from_agent, "header"));
	CHECK(refused(bad_header, "header"));
	CHECK(refused(pong, "PONG"));
	CHECK(refused(broken_without_errno, "error number"));
}
TEST(credit_is_bounded)
{
	CHECK(refused(much_credit, "CREDIT"));
	CHECK(refused(all_credit, "CREDIT"));
	CHECK(refused(credit_in_parts, "CREDIT"));
}

TEST(data_beyond_the_window)
{
	static uint8_t chunk[FRAME_MAX];
	struct fake f;
	int fd = fake_new(&f), r = 0;

	CHECK(fake_open(&f, 10) == 0);
	fake_hello(&f);
	f.log.take = 0;
	for (int i = 0; i < FRAME_WINDOW / FRAME_MAX; i++) {
		fake_send(&f, FRAME_DATA, 1, CHAN_OUT, chunk, sizeof(chunk));
		CHECK(fake_run(&f, fd) == 0);
	}
	fake_send(&f, FRAME_DATA, 1, CHAN_OUT, chunk, 1);
	r = fake_run(&f, fd);
	CHECK(r == -EPROTO && strstr(f.e.msg, "credit") != NULL);
	fake_done(&f, fd);
}

static int first_bytes(const void *p, size_t n)
{
	struct fake f;
	int fd = fake_new(&f), r;

	if (fake_open(&f, 10) < 0 || write(f.fd, p, n) != (ssize_t)n)
		abort();
	r = fake_run(&f, fd);
	if (r == 0 || f.log.results != 1)
		r = 1;
	fake_done(&f, fd);
	return r;
}

TEST(hello_comes_first)
{
	uint8_t b[FRAME_HDR + HELLO_LEN];

	frame_header(b, FRAME_EOF, 1, CHAN_OUT, 0, 0);
	CHECK(first_bytes(b, FRAME_HDR) == -EPROTO);
	CHECK(first_bytes("HTTP/1.1 200 OK\r\n\r\n", 19) == -EPROTO);
	frame_header(b, FRAME_HELLO, 0, 0, 0, HELLO_LEN);
	hello_encode(b + FRAME_HDR, 0);
	store_le16(b + FRAME_HDR + 4, 7);
	store_le16(b + FRAME_HDR + 6, 9);
	CHECK(first_bytes(b, sizeof(b)) == -EPROTONOSUPPORT);
	b[FRAME_HDR] ^= 1;
	CHECK(first_bytes(b, sizeof(b)) == -EPROTO);
}

/* A RESULT made of one field list. */
static bool bad_result(const char *name, void (*fill)(struct msg_writer *w))
{
	struct fake f;
	struct buf b = {.max = 4096};
	struct msg_writer w = {.b = &b};
	int fd = fake_new(&f), r;

	fill(&w);
	if (w.err != 0 || fake_open(&f, 10) < 0)
		abort();
	fake_hello(&f);
	fake_send(&f, FRAME_RESULT, 1, 0, b.data, b.len);
	r = fake_run(&f, fd);
	if (r != -EPROTO || strstr(f.e.msg, "RESULT") == NULL)
		printf("# %s: %d %s\n", name, r, f.e.msg);
	buf_done(&b);
	fake_done(&f, fd);
	return r == -EPROTO;
}
static void no_how(struct msg_writer *w) { msg_u64(w, F_WALL, 1); }
static void no_code(struct msg_writer *w) { msg_u64(w, F_HOW, HOW_EXIT); }
static void big_code(struct msg_writer *w)
{
	msg_u64(w, F_HOW, HOW_EXIT);
	msg_u64(w, F_CODE, 256);
}
static void big_signal(struct msg_writer *w)
{
	msg_u64(w, F_HOW, HOW_SIGNAL);
	msg_u64(w, F_CODE, 65);
}
static void no_errno(struct msg_writer *w)
{
	msg_u64(w, F_HOW, HOW_ERROR);
	msg_u64(w, F_ERRNO, 0);
}
static void foreign_field(struct msg_writer *w)
{
	msg_u64(w, F_HOW, HOW_DONE);
	msg_str(w, F_ARG, "x");
}
TEST(results_that_make_no_sense)
{
	CHECK(bad_result("no HOW", no_how));
	CHECK(bad_result("no CODE", no_code));
	CHECK(bad_result("exit 256", big_code));
	CHECK(bad_result("signal 65", big_signal));
	CHECK(bad_result("no errno", no_errno));
	CHECK(bad_result("a foreign field", foreign_field));
}

TEST(text_of_a_result_is_harmless)
{
	struct fake f;
	struct buf b = {.max = 4096};
	struct msg_writer w = {.b = &b};
	char text[1001];
	int fd = fake_new(&f);

	memset(text, 'a', 1000);
	text[1000] = '\0';
	memcpy(text, "\033[2J\r\n\x9b", 7);
	msg_u64(&w, F_HOW, HOW_ERROR);
	msg_u64(&w, F_ERRNO, ENOENT);
	msg_str(&w, F_TEXT, text);
	CHECK(fake_open(&f, 10) == 0);
	fake_hello(&f);
	fake_send(&f, FRAME_RESULT, 1, 0, b.data, b.len);
	CHECK(fake_run(&f, fd) == 0);
	CHECK(memcmp(f.log.res.text, "?[2J???aaa", 10) == 0);
	CHECK(strlen(f.log.res.text) == sizeof(f.log.res.text) - 1);
	buf_done(&b);
	fake_done(&f, fd);
}

TEST(pings_that_are_never_read)
{
	struct fake f;
	int fd = fake_new(&f), r = 0;

	CHECK(fake_open(&f, FRAME_OPEN_MAX) == 0); /* our queue stands */
	fake_hello(&f);
	for (int i = 0; i < 5000 && r == 0; i++) {
		fake_send(&f, FRAME_PING, 0, 0, "12345678", 8);
		r = session_io(f.s, POLLIN, &f.e);
	}
	CHECK(r == -EPROTO && strstr(f.e.msg, "PING") != NULL);
	fake_done(&f, fd);
}

TEST(descriptors_from_the_agent_are_dropped)
{
	struct fake f;
	struct cmsghdr *c;
	char ctl[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))) = "";
	uint8_t b[FRAME_HDR + HELLO_LEN];
	struct iovec iov = {.iov_base = b, .iov_len = sizeof(b)};
	struct msghdr mh = {
	    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl, .msg_controllen = sizeof(ctl)};
	int fd = fake_new(&f), p[2], before, after;

	CHECK(pipe2(p, O_CLOEXEC) == 0);
	frame_header(b, FRAME_HELLO, 0, 0, 0, HELLO_LEN);
	hello_encode(b + FRAME_HDR, 0);
	c = CMSG_FIRSTHDR(&mh);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &p[1], sizeof(int));
	CHECK(sendmsg(f.fd, &mh, 0) == (ssize_t)sizeof(b));
	before = fcntl(0, F_DUPFD_CLOEXEC, 3);
	(void)close(before);
	CHECK(fake_run(&f, fd) == 0);
	after = fcntl(0, F_DUPFD_CLOEXEC, 3);
	(void)close(after);
	CHECK(before == after);
	(void)close(p[0]);
	(void)close(p[1]);
	fake_done(&f, fd);
}
TEST_MAIN()

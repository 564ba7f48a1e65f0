/*
 * Bytes from the agent into a session over a socketpair, with callbacks that stall, fail, resume,
 * open and reset as the input says. The first bytes steer, the rest comes from the agent; a valid
 * HELLO goes first unless the input asks for its own.
 */
#include "base/num.h"
#include "session/session.h"
#include "wire/frame.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STREAMS = 4, STEER = 16 };

static struct fuzz {
	struct session *s;
	struct stream *open[STREAMS + 1];
	uint8_t steer[STEER];
	uint32_t at;
	int opens, live;
	bool freed;
} z;

static uint8_t next(void) { return z.steer[z.at++ % STEER]; }

static void open_one(void);

static void act(struct stream *s)
{
	static const uint8_t bytes[300];

	switch (next() % 12) {
	case 0:
		(void)stream_write(s, bytes, sizeof(bytes));
		break;
	case 1:
		stream_eof(s);
		break;
	case 2:
		stream_resume(s, CHAN_OUT);
		break;
	case 3:
		stream_reset(s);
		break;
	case 4:
		stream_signal(s, 9);
		break;
	case 5:
		open_one();
		break;
	case 6:
		if (next() % 16 == 0 && !z.freed) {
			z.freed = true;
			session_free(z.s);
		}
		break;
	default:
		break;
	}
}

static ssize_t on_data(void *arg, struct stream *s, uint8_t chan, const void *p, size_t n)
{
	uint8_t c = next();

	(void)arg;
	(void)chan;
	if (n == 0 || p == NULL || z.freed)
		abort();
	act(s);
	return c % 8 == 0 ? -EIO : c % 4 == 0 ? 0 : c % 4 == 1 ? (ssize_t)(n / 2) : (ssize_t)n;
}
static void on_eof(void *arg, struct stream *s, uint8_t chan)
{
	(void)arg;
	(void)chan;
	if (z.freed)
		abort();
	act(s);
}
static void on_writable(void *arg, struct stream *s)
{
	(void)arg;
	act(s);
}
static void on_broken(void *arg, struct stream *s, int err)
{
	(void)arg;
	if (err <= 0 || stream_write(s, "x", 1) != -EPIPE)
		abort();
	act(s);
}
static void on_started(void *arg, struct stream *s, uint32_t pid)
{
	(void)arg;
	(void)pid;
	act(s);
}
static void on_result(void *arg, struct stream *s, const struct stream_result *r)
{
	struct stream **slot = arg;

	if (z.freed || *slot != s || memchr(r->text, '\0', sizeof(r->text)) == NULL)
		abort();
	*slot = NULL;
	z.live--;
	act(s);
}
static const struct stream_ops ops = {.data = on_data,
				      .eof = on_eof,
				      .writable = on_writable,
				      .broken = on_broken,
				      .started = on_started,
				      .result = on_result};

static void open_one(void)
{
	struct buf req = {.max = 8};

	if (z.freed || z.opens >= STREAMS)
		return;
	if (buf_put(&req, "req", 3) < 0)
		abort();
	if (session_open(z.s, &req, NULL, 0, &ops, &z.open[z.opens], &z.open[z.opens], NULL) == 0) {
		z.opens++;
		z.live++;
	}
	buf_done(&req);
}

static void run(int fd, int peer)
{
	static uint8_t sink[65536];

	for (int i = 0; i < 200 && !z.freed; i++) {
		struct pollfd p = {.fd = fd, .events = session_events(z.s)};

		if (poll(&p, 1, 0) <= 0 || p.revents == 0)
			break;
		if (session_io(z.s, p.revents, NULL) < 0)
			break;
		while (recv(peer, sink, sizeof(sink), MSG_DONTWAIT) > 0)
			;
	}
	if (!z.freed && (uint32_t)z.live != session_streams(z.s))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	int sv[2];

	if (n < STEER || n > 150000 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) < 0)
		return 0;
	memset(&z, 0, sizeof(z));
	memcpy(z.steer, p, STEER);
	p += STEER;
	n -= STEER;
	if (session_new(sv[0], false, &z.s) < 0)
		abort();
	open_one();
	open_one();
	if ((z.steer[0] & 0x80) == 0) {
		uint8_t h[FRAME_HDR + HELLO_LEN];

		frame_header(h, FRAME_HELLO, 0, 0, 0, HELLO_LEN);
		hello_encode(h + FRAME_HDR, 0);
		(void)!write(sv[1], h, sizeof(h));
	}
	while (n > 0 && !z.freed) {
		ssize_t k = write(sv[1], p, MIN(n, (size_t)z.steer[1] * 64 + 1));

		run(sv[0], sv[1]);
		if (k <= 0 || z.freed || session_events(z.s) == 0)
			break;
		p += k;
		n -= (size_t)k;
		for (int i = 0; i < z.opens && !z.freed; i++) {
			if (z.open[i] != NULL && next() % 4 == 0)
				stream_resume(z.open[i], CHAN_OUT);
		}
	}
	(void)close(sv[1]);
	if (!z.freed)
		run(sv[0], -1);
	for (int i = 0; i < z.opens && !z.freed; i++) {
		for (int k = 0; k < 40 && !z.freed && z.open[i] != NULL; k++)
			stream_resume(z.open[i], k % 2 ? CHAN_OUT : CHAN_ERR);
		if (!z.freed && z.open[i] != NULL)
			stream_abandon(z.open[i]);
	}
	if (!z.freed)
		session_free(z.s);
	(void)close(sv[0]);
	return 0;
}

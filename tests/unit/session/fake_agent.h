#pragma once
/* The agent's end of a session, under the test's full control. */
#include "base/num.h"
#include "session/session.h"
#include "wire/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct log {
	char text[8192]; /* what the callbacks saw, one word each */
	struct buf bytes; /* of CHAN_OUT */
	struct stream_result res;
	struct stream *st;
	struct session *s;
	ssize_t take; /* bytes the consumer takes per call; < 0: its error */
	int results;
	int writables;
	bool free_in_result;
	bool open_in_result;
	bool resume_in_data;
};

struct fake {
	struct session *s;
	int fd; /* the agent's end */
	struct buf in;
	struct log log;
	struct err e;
};

static inline void note(struct log *l, const char *what)
{
	size_t n = strlen(l->text);

	(void)snprintf(l->text + n, sizeof(l->text) - n, "%s ", what);
}
static inline ssize_t on_data(void *arg, struct stream *s, uint8_t chan, const void *p, size_t n)
{
	struct log *l = arg;
	size_t k;

	note(l, chan == CHAN_ERR ? "err" : "data");
	if (l->take < 0)
		return l->take;
	k = MIN(n, (size_t)l->take);
	if (buf_put(&l->bytes, p, k) < 0)
		return -ENOMEM;
	if (l->resume_in_data)
		stream_resume(s, chan);
	return (ssize_t)k;
}
static inline void on_eof(void *arg, struct stream *s, uint8_t chan)
{
	(void)s;
	note(arg, chan == CHAN_ERR ? "eof-err" : "eof");
}
static inline void on_writable(void *arg, struct stream *s)
{
	(void)s;
	note(arg, "writable");
	((struct log *)arg)->writables++;
}
static inline void on_broken(void *arg, struct stream *s, int err)
{
	(void)s;
	note(arg, err == EPIPE ? "broken-EPIPE" : "broken");
}
static inline void on_started(void *arg, struct stream *s, uint32_t pid)
{
	(void)s;
	note(arg, pid == 7 ? "started-7" : "started");
}
static inline void on_result(void *arg, struct stream *s, const struct stream_result *r)
{
	struct log *l = arg;

	(void)s;
	note(l, r->how == HOW_ERROR ? "result-error" : "result");
	l->res = *r;
	l->results++;
	l->st = NULL;
	if (l->open_in_result) {
		struct buf req = {.max = 64};

		l->open_in_result = false;
		if (buf_put(&req, "again", 5) == 0 &&
		    session_open(l->s, &req, NULL, 0, NULL, NULL, &l->st, NULL) == 0)
			note(l, "opened");
		buf_done(&req);
	}
	if (l->free_in_result) {
		session_free(l->s);
		l->s = NULL;
	}
}
static const struct stream_ops log_ops = {.data = on_data,
					  .eof = on_eof,
					  .writable = on_writable,
					  .broken = on_broken,
					  .started = on_started,
					  .result = on_result};

static inline int fake_new(struct fake *f)
{
	int sv[2];

	memset(f, 0, sizeof(*f));
	f->fd = -1;
	f->log.take = SSIZE_MAX;
	buf_init(&f->in, 32u << 20);
	buf_init(&f->log.bytes, 32u << 20);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) < 0)
		return -errno;
	f->fd = sv[1];
	f->log.s = NULL;
	if (session_new(sv[0], true, &f->s) < 0)
		return -ENOMEM;
	f->log.s = f->s;
	return sv[0];
}
static inline void fake_done(struct fake *f, int fd)
{
	if (f->log.s != NULL)
		session_free(f->s);
	buf_done(&f->in);
	buf_done(&f->log.bytes);
	(void)close(fd);
	if (f->fd >= 0)
		(void)close(f->fd);
}
/* Let the session work until there is nothing to do at once. 0 or its error. */
static inline int fake_run(struct fake *f, int fd)
{
	for (;;) {
		struct pollfd p = {.fd = fd, .events = session_events(f->s)};
		int r;

		if (poll(&p, 1, 0) <= 0 || p.revents == 0)
			return 0;
		r = session_io(f->s, p.revents, &f->e);
		if (r < 0)
			return r;
	}
}
static inline void fake_send(struct fake *f, enum frame_type t, uint32_t stream, uint8_t chan, const void *p,
			     size_t n)
{
	struct buf b = {.max = 1u << 20};

	if (frame_put(&b, t, stream, chan, 0, p, n) < 0 ||
	    send(f->fd, b.data, b.len, MSG_NOSIGNAL) != (ssize_t)b.len)
		abort();
	buf_done(&b);
}
static inline void fake_u32(struct fake *f, enum frame_type t, uint32_t stream, uint8_t chan, uint32_t v)
{
	uint8_t le[4];

	store_le32(le, v);
	fake_send(f, t, stream, chan, le, 4);
}
static inline void fake_hello(struct fake *f)
{
	uint8_t h[HELLO_LEN];

	hello_encode(h, HELLO_FD_PASS);
	fake_send(f, FRAME_HELLO, 0, 0, h, sizeof(h));
}
static inline void fake_result(struct fake *f, uint32_t stream, enum result_how how, uint32_t n)
{
	struct buf b = {.max = 4096};
	struct msg_writer w = {.b = &b};

	msg_u64(&w, F_HOW, how);
	if (how == HOW_EXIT || how == HOW_SIGNAL)
		msg_u64(&w, F_CODE, n);
	if (how == HOW_ERROR)
		msg_u64(&w, F_ERRNO, n);
	fake_send(f, FRAME_RESULT, stream, 0, b.data, b.len);
	buf_done(&b);
}
/* The next frame the host sent; false when there is none. ret->payload lives until the next call. */
static inline bool fake_next(struct fake *f, struct frame *ret)
{
	uint8_t *p;
	ssize_t n;
	int used;

	while ((p = buf_reserve(&f->in, 65536)) != NULL &&
	       (n = recv(f->fd, p, 65536, MSG_DONTWAIT)) > 0)
		buf_commit(&f->in, (size_t)n);
	if (f->in.len == 0)
		return false;
	used = frame_decode(buf_head(&f->in), f->in.len, FRAME_TO_AGENT, ret);
	if (used <= 0)
		return false;
	buf_consume(&f->in, (size_t)used);
	return true;
}
static inline int fake_open(struct fake *f, size_t n)
{
	struct buf req = {.max = 8u << 20};
	uint8_t *p = buf_reserve(&req, n);
	int r;

	memset(p, 'q', n);
	buf_commit(&req, n);
	r = session_open(f->s, &req, NULL, 0, &log_ops, &f->log, &f->log.st, &f->e);
	buf_done(&req);
	return r;
}

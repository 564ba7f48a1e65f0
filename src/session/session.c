#include "base/num.h"
#include "session/session_priv.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/*
 * Theory of operation. session_io reads what is there (a bounded number of reads, so that one busy
 * agent does not starve the caller's other descriptors), decodes frame by frame and hands each to
 * its stream. The agent is hostile: whatever a frame may not do in the state its stream is in ends
 * the session with -EPROTO; nothing is repaired or skipped. stream.c has the rules for a stream.
 *
 *      HELLO goes out first, without waiting. The peer's HELLO must be its first frame.
 *
 * Callbacks may call everything but session_io. While one runs (depth > 0) streams are neither freed
 * nor entered a second time: what became possible meanwhile is done by streams_pump on the way out,
 * and session_free only marks the session.
 *
 * Descriptors an agent sends are never received: recv(2) without a control buffer makes the kernel
 * drop them.
 */

enum { READS_MAX = 16 };

static void session_destroy(struct session *s)
{
	streams_free_all(s);
	tx_done(s);
	buf_done(&s->in);
	free(s);
}

void session_enter(struct session *s) { s->depth++; }

void session_leave(struct session *s)
{
	if (--s->depth == 0 && s->doomed)
		session_destroy(s);
}

int session_new(int fd, bool fd_pass, struct session **ret)
{
	struct session *s = calloc(1, sizeof(*s));
	uint8_t hello[HELLO_LEN];

	if (s == NULL)
		return -ENOMEM;
	s->fd = fd;
	s->fd_pass = fd_pass;
	s->next_id = 1;
	s->marks_tail = &s->marks;
	buf_init(&s->in, RX_MAX);
	buf_init(&s->out, TX_MAX);
	hello_encode(hello, fd_pass ? HELLO_FD_PASS : 0);
	tx_frame(s, FRAME_HELLO, 0, 0, hello, sizeof(hello));
	if (s->fail != 0) {
		int r = s->fail;

		session_destroy(s);
		return r;
	}
	*ret = s;
	return 0;
}

void session_free(struct session *s)
{
	if (s == NULL)
		return;
	s->doomed = true;
	if (s->depth == 0)
		session_destroy(s);
}

short session_events(const struct session *s)
{
	if (s->dead != 0)
		return 0;
	return s->out.len > 0 || s->work || s->fail != 0 ? POLLIN | POLLOUT : POLLIN;
}

uint32_t session_streams(const struct session *s) { return s->count; }

static int hello_frame(struct session *s, const struct frame *f)
{
	uint32_t features;
	int r;

	if (s->hello)
		return session_broken(s, "a second HELLO");
	r = hello_decode(f->payload, f->len, &features);
	if (r < 0) {
		s->why = r == -EPROTONOSUPPORT ? "no common version" : "it is no brig agent";
		return r;
	}
	s->hello = true;
	return 0;
}

static int conn_frame(struct session *s, const struct frame *f)
{
	switch ((enum frame_type)f->type) {
	case FRAME_HELLO:
		return hello_frame(s, f);
	case FRAME_PING:
		if (++s->pongs > PONGS_MAX)
			return session_broken(s, "PINGs without reading the answers");
		tx_frame(s, FRAME_PONG, 0, 0, f->payload, f->len);
		return 0;
	case FRAME_PONG:
		return session_broken(s, "a PONG nobody asked for");
	case FRAME_OPEN:
	case FRAME_DATA:
	case FRAME_EOF:
	case FRAME_CREDIT:
	case FRAME_BROKEN:
	case FRAME_SIGNAL:
	case FRAME_RESIZE:
	case FRAME_START:
	case FRAME_RESULT:
	case FRAME_RESET:
		break;
	}
	return session_broken(s, "a stream's frame without a stream");
}

/* Take in every whole frame of s->in. 0, -errno. */
static int take_frames(struct session *s)
{
	while (s->in.len > 0) {
		struct frame f;
		int n = frame_decode(buf_head(&s->in), s->in.len, FRAME_TO_HOST, &f);
		int r;

		if (n == 0)
			return 0;
		if (n < 0)
			return session_broken(s, "a broken frame header");
		if (!s->hello && f.type != FRAME_HELLO)
			return session_broken(s, "no HELLO first");
		r = f.stream == 0 ? conn_frame(s, &f) : stream_frame(s, &f);
		if (r < 0)
			return r;
		if (s->doomed)
			return -ECANCELED;
		buf_consume(&s->in, (size_t)n);
	}
	return 0;
}

/* 0: nothing more for now, -EPIPE at end of file, other -errno. */
static int read_some(struct session *s)
{
	for (int i = 0; i < READS_MAX; i++) {
		size_t want = MIN(buf_room(&s->in), (size_t)(2 * FRAME_MAX));
		uint8_t *p;
		ssize_t n;
		int r;

		/* An idle session keeps a small buffer. */
		if (i == 0 && s->in.cap < want)
			want = MIN(want, (size_t)2048 + s->in.len);
		p = buf_reserve(&s->in, want);
		if (p == NULL)
			return -ENOMEM;
		n = recv(s->fd, p, want, MSG_DONTWAIT);
		if (n == 0)
			return -EPIPE;
		if (n < 0) {
			if (errno == EINTR)
				continue;
			if (errno == EAGAIN)
				return 0;
			return errno == ECONNRESET || errno == ENOTCONN ? -EPIPE : -errno;
		}
		buf_commit(&s->in, (size_t)n);
		r = take_frames(s);
		if (r < 0)
			return r;
		if ((size_t)n < want)
			return 0;
	}
	return 0;
}

static int session_end(struct session *s, int r, struct err *e)
{
	struct err mine = ERR_INIT;
	int ret;

	if (r == -EPIPE)
		ret = err_set(&mine, ERR_LOST, EPIPE, "the sandbox's agent is gone");
	else if (r == -EPROTO || r == -EPROTONOSUPPORT)
		ret = err_set(&mine, ERR_LOST, -r, "the sandbox's agent broke the protocol: %s",
			      s->why != NULL ? s->why : "unknown");
	else
		ret = err_set(&mine, ERR_INTERNAL, -r, "the sandbox's agent: %s", strerror(-r));
	s->dead = ret;
	s->work = false;
	tx_done(s);
	buf_done(&s->in);
	if (e != NULL)
		*e = mine;
	streams_end_all(s, -ret, mine.msg);
	return ret;
}

int session_io(struct session *s, short revents, struct err *e)
{
	int r = 0;

	if (s->depth > 0)
		return err_set(e, ERR_INTERNAL, EDEADLK, "session_io inside a callback");
	if (s->dead != 0)
		return err_set(e, ERR_LOST, -s->dead, "the sandbox's agent is gone");
	session_enter(s);
	if ((revents & POLLOUT) != 0)
		s->tx_blocked = false;
	tx_flush(s);
	if ((revents & (POLLIN | POLLHUP | POLLERR)) != 0)
		r = read_some(s);
	if (r == 0 || r == -EPIPE) {
		if (!s->doomed)
			streams_pump(s);
		if (r == 0 && !s->doomed)
			tx_flush(s);
	}
	if (r == 0)
		r = s->fail;
	if (s->doomed)
		r = err_set(e, ERR_INTERNAL, ECANCELED, "a callback freed the session");
	else if (r < 0)
		r = session_end(s, r, e);
	session_leave(s);
	return r;
}

int session_open(struct session *s, const struct buf *req, const int *fds, uint32_t nfds,
		 const struct stream_ops *ops, void *arg, struct stream **ret_stream, struct err *e)
{
	struct stream *st;
	uint32_t id;
	int r;

	if (s->dead != 0 || s->doomed)
		return err_set(e, ERR_LOST, EPIPE, "the sandbox's agent is gone");
	if (req->len == 0 || nfds > SESSION_FDS_MAX || (nfds > 0 && !s->fd_pass))
		return err_set(e, ERR_INTERNAL, EINVAL, "a request this connection cannot carry");
	if (req->len > FRAME_OPEN_MAX)
		return err_set(e, ERR_LIMITED, E2BIG, "the request is larger than %d MiB",
			       FRAME_OPEN_MAX / (1024 * 1024));
	if (s->count >= SESSION_STREAMS_MAX)
		return err_set(e, ERR_LIMITED, EMFILE, "more than %d requests at once",
			       SESSION_STREAMS_MAX);
	/* Ids only grow. One whose slot is taken by a long-lived stream is left out. */
	id = s->next_id;
	while (id <= FRAME_STREAM_MAX && s->slots[id % SESSION_STREAMS_MAX] != NULL)
		id++;
	if (id > FRAME_STREAM_MAX)
		return err_set(e, ERR_LIMITED, EMFILE, "the connection has used up its stream ids");
	st = calloc(1, sizeof(*st));
	if (st == NULL)
		return err_set(e, ERR_INTERNAL, ENOMEM, "a new stream: out of memory");
	st->s = s;
	st->id = id;
	st->ops = ops;
	st->arg = arg;
	st->tx_credit = FRAME_WINDOW;
	for (int c = 0; c < CHAN_COUNT; c++) {
		buf_init(&st->rx[c].kept, FRAME_CREDIT_MAX);
		st->rx[c].credit = FRAME_WINDOW;
	}
	r = tx_open(s, id, req, fds, nfds);
	if (r < 0) {
		free(st);
		return err_set(e, r == -ENOBUFS ? ERR_LIMITED : ERR_INTERNAL, -r,
			       r == -ENOBUFS ? "the agent takes no more requests for now"
					     : "sending a request failed");
	}
	s->next_id = id + 1;
	s->slots[id % SESSION_STREAMS_MAX] = st;
	s->count++;
	st->prev = s->last;
	*(s->last != NULL ? &s->last->next : &s->first) = st;
	s->last = st;
	if (ret_stream != NULL)
		*ret_stream = st;
	return 0;
}

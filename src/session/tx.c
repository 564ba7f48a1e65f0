#include "base/cleanup.h"
#include "base/num.h"
#include "session/session_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/*
 * Theory of operation. What leaves is one byte queue, filled by requests (bounded by TX_OPEN_HIGH),
 * stream data (stream.c stops at TX_DATA_HIGH) and control frames. Most of those answer what our
 * own side does; CREDIT and PONG answer the agent, which may be hostile and not read: PONGs are
 * counted, credits are 16 bytes for each 64 KiB that was really consumed, and a queue that fills up
 * all the same ends the session.
 *
 * Descriptors belong to one byte of the queue, the first of their OPEN frame. A send starts at most
 * one such byte and stops before the next, so they arrive with that byte or later, in order. They
 * are duplicated only when the socket did not take them before session_open returns.
 */

void tx_frame(struct session *s, enum frame_type type, uint32_t stream, uint8_t chan,
	      const void *payload, size_t len)
{
	int r;

	if (s->tx_dead || s->dead != 0)
		return;
	r = frame_put(&s->out, type, stream, chan, 0, payload, len);
	if (r < 0 && s->fail == 0) {
		s->fail = r == -ENOBUFS ? session_broken(s, "it does not read what it is sent") : r;
	}
}

void tx_u32(struct session *s, enum frame_type type, uint32_t stream, uint8_t chan, uint32_t v)
{
	uint8_t le[4];

	store_le32(le, v);
	tx_frame(s, type, stream, chan, le, sizeof(le));
}

static void mark_free(struct fd_mark *m)
{
	if (m->owned) {
		for (uint32_t i = 0; i < m->n; i++)
			(void)close(m->fds[i]);
	}
	free(m);
}

static void mark_pop(struct session *s)
{
	struct fd_mark *m = s->marks;

	s->marks = m->next;
	if (s->marks == NULL)
		s->marks_tail = &s->marks;
	mark_free(m);
}

/* Make the mark independent of the caller's descriptors. */
static int mark_own(struct fd_mark *m)
{
	int own[SESSION_FDS_MAX] = {0};

	for (uint32_t i = 0; i < m->n; i++) {
		own[i] = fcntl(m->fds[i], F_DUPFD_CLOEXEC, 0);
		if (own[i] < 0) {
			int r = -errno;

			while (i > 0)
				(void)close(own[--i]);
			return r;
		}
	}
	memcpy(m->fds, own, sizeof(int) * m->n);
	m->owned = true;
	return 0;
}

void tx_done(struct session *s)
{
	while (s->marks != NULL)
		mark_pop(s);
	buf_done(&s->out);
}

/* Bytes sent, or -errno. */
static ssize_t send_some(struct session *s)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int) * SESSION_FDS_MAX)];
	} ctl;
	const struct fd_mark *m = s->marks;
	size_t n = s->out.len;
	struct iovec iov;
	struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t r;

	if (m != NULL && m->at == s->sent) {
		struct cmsghdr *c;

		memset(&ctl, 0, sizeof(ctl));
		mh.msg_control = ctl.space;
		mh.msg_controllen = (socklen_t)CMSG_SPACE(sizeof(int) * m->n);
		c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = (socklen_t)CMSG_LEN(sizeof(int) * m->n);
		memcpy(CMSG_DATA(c), m->fds, sizeof(int) * m->n);
		m = m->next;
	}
	if (m != NULL)
		n = MIN(n, (size_t)(m->at - s->sent));
	iov = (struct iovec){.iov_base = s->out.data + s->out.off, .iov_len = n};
	do {
		r = sendmsg(s->fd, &mh, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

void tx_flush(struct session *s)
{
	while (s->out.len > 0 && !s->tx_blocked && !s->tx_dead && s->dead == 0) {
		ssize_t r = send_some(s);

		if (r == -EAGAIN) {
			s->tx_blocked = true;
			return;
		}
		if (r < 0) {
			/* The peer closed. What it sent before that still counts, so reading
			 * goes on until end of file. */
			s->tx_dead = true;
			if (r != -EPIPE && r != -ECONNRESET && r != -ENOTCONN && s->fail == 0)
				s->fail = (int)r;
			tx_done(s);
			return;
		}
		if (s->marks != NULL && s->marks->at == s->sent)
			mark_pop(s);
		s->sent += (uint64_t)r;
		buf_consume(&s->out, (size_t)r);
	}
	if (s->out.len == 0)
		s->pongs = 0;
}

static int put_fragments(struct session *s, uint32_t stream, const struct buf *req, bool fds)
{
	size_t done = 0;

	while (done < req->len) {
		size_t n = MIN(req->len - done, (size_t)FRAME_MAX);
		uint16_t flags = done + n < req->len ? FRAME_F_MORE : 0;
		int r;

		if (done == 0 && fds)
			flags |= FRAME_F_FDS;
		r = frame_put(&s->out, FRAME_OPEN, stream, CHAN_IN, flags, buf_head(req) + done, n);
		if (r < 0)
			return r;
		done += n;
	}
	return 0;
}

/* Descriptors of requests that the socket did not take at once outlive the caller's. */
static int own_all(struct session *s)
{
	for (struct fd_mark *m = s->marks; m != NULL; m = m->next) {
		int r = m->owned ? 0 : mark_own(m);

		if (r < 0)
			return r;
	}
	return 0;
}

int tx_open(struct session *s, uint32_t stream, const struct buf *req, const int *fds,
	    uint32_t nfds)
{
	size_t need = req->len + (req->len / FRAME_MAX + 1) * FRAME_HDR;
	struct fd_mark *m = NULL;
	int r;

	if (need > TX_OPEN_HIGH || s->out.len > TX_OPEN_HIGH - need)
		return -ENOBUFS;
	if (nfds > 0) {
		m = calloc(1, sizeof(*m));
		if (m == NULL)
			return -ENOMEM;
		m->n = nfds;
		memcpy(m->fds, fds, sizeof(int) * nfds);
		tx_flush(s);
	}
	if (s->tx_dead) { /* the end of file that follows ends this stream like every other */
		free(m);
		return 0;
	}
	r = buf_reserve(&s->out, need) == NULL ? -ENOMEM : 0;
	if (r == 0 && m != NULL && s->out.len > 0)
		r = mark_own(m);
	if (r < 0) {
		free(m);
		return r;
	}
	if (m != NULL) {
		m->at = s->sent + s->out.len;
		*s->marks_tail = m;
		s->marks_tail = &m->next;
	}
	r = put_fragments(s, stream, req, m != NULL);
	if (r == 0)
		tx_flush(s);
	if (r == 0)
		r = own_all(s);
	if (r < 0) { /* half a request is queued: nothing can follow it */
		s->tx_dead = true;
		if (s->fail == 0)
			s->fail = r;
		tx_done(s);
	}
	return 0;
}

#include "guest/peer.h"

#include "base/num.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * Fed by the host, which is treated as hostile: input is held one frame at a time, received
 * descriptors are few and counted. The output queue is bounded by its users: channels stop being
 * read above PEER_OUT_SOFT, frames stop being taken in above PEER_OUT_PAUSE, and what is left
 * (results and ends of at most 256 streams) fits below PEER_OUT_MAX.
 *
 * Reads start with 4 KiB so that a sandbox that runs one command never touches more memory.
 */

enum { READ_MIN = 4096, READ_MAX = FRAME_HDR + FRAME_MAX, KEEP_MAX = 16 * 1024 };

void peer_init(struct peer *p, int fd)
{
	*p = (struct peer){.fd = fd, .chunk = READ_MIN};
	buf_init(&p->in, 2 * READ_MAX);
	buf_init(&p->out, PEER_OUT_MAX);
	buf_init(&p->open, FRAME_OPEN_MAX);
}

void peer_done(struct peer *p)
{
	for (uint32_t i = 0; i < p->nfds; i++)
		(void)close(p->fds[i]);
	p->nfds = 0;
	buf_done(&p->in);
	buf_done(&p->out);
	buf_done(&p->open);
}

/* The kernel hands descriptors over in one control message at most (unix(7)). */
static int keep_fds(struct peer *p, struct msghdr *mh)
{
	int bad = mh->msg_flags & MSG_CTRUNC ? -EPROTO : 0;
	struct cmsghdr *c = CMSG_FIRSTHDR(mh);
	size_t n;

	if (c == NULL || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return bad;
	n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	for (size_t i = 0; i < n; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
		if (p->nfds < PEER_FDS_MAX) {
			p->fds[p->nfds++] = fd;
		} else {
			(void)close(fd);
			bad = -EPROTO;
		}
	}
	return bad;
}

int peer_read(struct peer *p)
{
	/* one more than is ever accepted, so that a surplus is seen here and not cut by the kernel */
	union {
		char b[CMSG_SPACE((PEER_FDS_MAX + 1) * sizeof(int))];
		struct cmsghdr align;
	} ctl;
	size_t room = MIN(p->chunk, buf_room(&p->in));
	struct iovec iov = {.iov_len = room};
	struct msghdr mh = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.b, .msg_controllen = sizeof(ctl.b)};
	ssize_t n;
	int r;

	if (room == 0)
		return 0;
	iov.iov_base = buf_reserve(&p->in, room);
	if (iov.iov_base == NULL)
		return -ENOMEM;
	n = recvmsg(p->fd, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -EPIPE;
	r = keep_fds(p, &mh);
	if (r < 0)
		return r;
	if (n == 0)
		return -EPIPE;
	buf_commit(&p->in, (size_t)n);
	p->chunk = (size_t)n == room ? READ_MAX : p->chunk;
	return (int)n;
}

int peer_flush(struct peer *p)
{
	while (p->out.len > 0) {
		ssize_t n = send(p->fd, buf_head(&p->out), p->out.len, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -EPIPE;
		buf_consume(&p->out, (size_t)n);
	}
	return 0;
}

void peer_send(struct peer *p, enum frame_type type, uint32_t stream, uint8_t chan, const void *payload,
	       size_t len)
{
	if (frame_put(&p->out, type, stream, chan, 0, payload, len) < 0)
		p->broken = true;
}

void peer_send_u32(struct peer *p, enum frame_type type, uint32_t stream, uint8_t chan, uint32_t v)
{
	uint8_t le[4];

	store_le32(le, v);
	peer_send(p, type, stream, chan, le, sizeof(le));
}

int peer_take_fds(struct peer *p, int *dst, uint32_t n)
{
	if (n > p->nfds)
		return -EPROTO;
	memcpy(dst, p->fds, n * sizeof(*dst));
	p->nfds -= n;
	memmove(p->fds, p->fds + n, p->nfds * sizeof(*dst));
	return 0;
}

void peer_idle(struct peer *p)
{
	if (p->in.len == 0 && p->in.cap > KEEP_MAX) {
		buf_done(&p->in);
		p->chunk = READ_MIN;
	}
	if (p->out.len == 0 && p->out.cap > KEEP_MAX)
		buf_done(&p->out);
	if (p->open_stream == 0 && p->open.cap > 0)
		buf_done(&p->open);
}

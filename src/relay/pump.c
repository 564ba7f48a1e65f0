#include "relay/pump.h"

#include "base/num.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Both sockets are foreign: one is the sandbox's, the other some server's. Bytes are moved, not read. */

enum { COPY_MAX = 128 * 1024 };
static uint8_t scratch[COPY_MAX]; /* of the one thread */

void pump_init(struct pump *p, uint64_t max)
{
	*p = (struct pump){.pipe = {-1, -1}, .max = max};
}

void pump_done(struct pump *p)
{
	free(p->kept);
	p->kept = NULL;
	for (int i = 0; i < 2; i++)
		if (p->pipe[i] >= 0)
			(void)close(p->pipe[i]);
	p->pipe[0] = p->pipe[1] = -1;
}

static int keep(struct pump *p, const uint8_t *data, size_t n)
{
	p->kept = malloc(n);
	if (p->kept == NULL)
		return -ENOMEM;
	memcpy(p->kept, data, n);
	p->kept_off = 0;
	p->kept_n = n;
	return 0;
}

int pump_preload(struct pump *p, const void *data, size_t n)
{
	return n == 0 ? 0 : keep(p, (const uint8_t *)data, n);
}

/* 1 = all taken, 0 = the side is full, -errno. */
static int put_kept(struct pump *p, struct pump_side *to)
{
	while (p->kept_n > 0) {
		ssize_t n = send(to->fd, p->kept + p->kept_off, p->kept_n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			to->writable = false;
			return 0;
		}
		if (n < 0)
			return -errno;
		p->kept_off += (size_t)n;
		p->kept_n -= (size_t)n;
		p->total += (uint64_t)n;
	}
	free(p->kept);
	p->kept = NULL;
	return 1;
}

static int put_pipe(struct pump *p, struct pump_side *to)
{
	while (p->in_pipe > 0) {
		ssize_t n = splice(p->pipe[0], NULL, to->fd, NULL, p->in_pipe, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			to->writable = false;
			return 0;
		}
		if (n <= 0)
			return n < 0 ? -errno : -EPIPE;
		p->in_pipe -= (size_t)n;
		p->total += (uint64_t)n;
	}
	return 1;
}

/* Bytes read, 0 = end, -EAGAIN, -errno. */
static ssize_t get(struct pump *p, const struct pump_side *from, struct pump_side *to)
{
	size_t want = p->max != 0 ? (size_t)MIN(p->max - p->total, (uint64_t)COPY_MAX) : COPY_MAX;
	ssize_t n;
	int r;

	if (p->pipe[0] < 0 && p->total >= PUMP_SPLICE_AFTER && pipe2(p->pipe, O_CLOEXEC | O_NONBLOCK) < 0)
		p->pipe[0] = p->pipe[1] = -1; /* none to be had: copying goes on */
	if (p->pipe[0] >= 0) {
		n = splice(from->fd, NULL, p->pipe[1], NULL, want, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
		if (n > 0)
			p->in_pipe = (size_t)n;
		return n < 0 ? -errno : n;
	}
	n = recv(from->fd, scratch, want, MSG_DONTWAIT);
	if (n <= 0)
		return n < 0 ? -errno : 0;
	{
		ssize_t sent = send(to->fd, scratch, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		sent = MAX(sent, 0);
		p->total += (uint64_t)sent;
		if (sent < n) {
			to->writable = false;
			r = keep(p, scratch + sent, (size_t)(n - sent));
			if (r < 0)
				return r;
		}
	}
	return n;
}

enum pump_result pump_step(struct pump *p, struct pump_side *from, struct pump_side *to, int *ret_err)
{
	size_t moved = 0;

	for (;;) {
		int put = 1;
		ssize_t n;

		if (p->kept_n > 0 || p->in_pipe > 0) {
			if (!to->writable)
				return PUMP_WAIT;
			put = p->kept_n > 0 ? put_kept(p, to) : 1;
			if (put > 0)
				put = put_pipe(p, to);
		}
		if (put < 0) {
			*ret_err = -put;
			return PUMP_BROKEN;
		}
		if (put == 0)
			return PUMP_WAIT;
		if (from->ended) {
			if (!to->shut)
				(void)shutdown(to->fd, SHUT_WR);
			to->shut = true;
			return PUMP_ENDED;
		}
		if (p->max != 0 && p->total >= p->max)
			return PUMP_FULL;
		if (!from->readable || !to->writable)
			return PUMP_WAIT;
		if (moved >= PUMP_TURN_MAX)
			return PUMP_MORE;
		n = get(p, from, to);
		if (n == -EINTR)
			continue;
		if (n == -EAGAIN) {
			from->readable = false;
			return PUMP_WAIT;
		}
		if (n < 0) {
			*ret_err = (int)-n;
			return PUMP_BROKEN;
		}
		from->ended = n == 0;
		moved += (size_t)n;
	}
}

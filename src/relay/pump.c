#include "relay/pump.h"

#include "base/num.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * Both sockets are foreign: one is the sandbox's, the other some server's. Bytes are moved, not
 * read.
 *
 * Pipes are few: one that is empty goes to the next direction that needs one. The kernel lets one
 * user have 64 MiB of them (pipe-user-pages-soft, pipe(7)) and makes smaller ones then, which work
 * too; without any, copying goes on.
 */

enum { POOL_MAX = 8, PIPE_ROOM = 512 * 1024 };
static uint8_t scratch[PUMP_COPY_MAX]; /* of the one thread, as the pool is */
static int pool[POOL_MAX][2];
static int pool_n;

static bool borrow_pipe(struct pump *p)
{
	if (pool_n > 0) {
		memcpy(p->pipe, pool[--pool_n], sizeof(p->pipe));
		return true;
	}
	if (pipe2(p->pipe, O_CLOEXEC | O_NONBLOCK) < 0) {
		p->pipe[0] = p->pipe[1] = -1;
		return false;
	}
	(void)fcntl(p->pipe[1], F_SETPIPE_SZ, PIPE_ROOM);
	return true;
}

static void drop_pipe(struct pump *p)
{
	for (int i = 0; i < 2; i++)
		if (p->pipe[i] >= 0)
			(void)close(p->pipe[i]);
	p->pipe[0] = p->pipe[1] = -1;
}

static void return_pipe(struct pump *p)
{
	if (p->pipe[0] < 0 || p->in_pipe > 0)
		return;
	if (pool_n == POOL_MAX) {
		drop_pipe(p);
		return;
	}
	memcpy(pool[pool_n++], p->pipe, sizeof(p->pipe));
	p->pipe[0] = p->pipe[1] = -1;
}

void pump_events(struct pump_side *s, uint32_t events)
{
	const uint32_t over = EPOLLHUP | EPOLLERR, ends = over | EPOLLRDHUP;

	s->readable |= (events & (EPOLLIN | ends)) != 0;
	s->writable |= (events & (EPOLLOUT | over)) != 0;
	s->odd |= (events & (EPOLLPRI | ends)) != 0;
}

void pump_init(struct pump *p) { *p = (struct pump){.pipe = {-1, -1}}; }

void pump_done(struct pump *p)
{
	free(p->kept);
	p->kept = NULL;
	p->kept_n = 0;
	return_pipe(p);
	drop_pipe(p);
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
		ssize_t n =
		    send(to->fd, p->kept + p->kept_off, p->kept_n, MSG_NOSIGNAL | MSG_DONTWAIT);

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
		ssize_t n = splice(p->pipe[0], NULL, to->fd, NULL, p->in_pipe,
				   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

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

static ssize_t copy(struct pump *p, struct pump_side *from, struct pump_side *to, size_t want)
{
	size_t room = MIN(want, sizeof(scratch));
	ssize_t n = recv(from->fd, scratch, room, MSG_DONTWAIT), sent;

	if (n <= 0)
		return n < 0 ? -errno : 0;
	if ((size_t)n < room && !from->odd)
		from->readable = false; /* that was all: what comes now is an event */
	sent = send(to->fd, scratch, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (sent < 0 && errno != EAGAIN && errno != EINTR)
		return -errno;
	sent = MAX(sent, 0);
	p->total += (uint64_t)sent;
	if (sent < n) {
		int r = keep(p, scratch + sent, (size_t)(n - sent));

		to->writable = false;
		if (r < 0)
			return r;
	}
	return n;
}

/* Bytes read, 0 = end, -EAGAIN, -errno. */
static ssize_t get(struct pump *p, struct pump_side *from, struct pump_side *to, size_t want)
{
	ssize_t n;

	if (p->total < PUMP_SPLICE_AFTER || (p->pipe[0] < 0 && !borrow_pipe(p)))
		return copy(p, from, to, want);
	n = splice(from->fd, NULL, p->pipe[1], NULL, MIN(want, (size_t)PIPE_ROOM),
		   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (n > 0)
		p->in_pipe = (size_t)n;
	return n < 0 ? -errno : n;
}

static enum pump_result step(struct pump *p, struct pump_side *from, struct pump_side *to,
			     uint64_t *left)
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
		if (put < 0)
			return PUMP_BROKEN;
		if (put == 0)
			return PUMP_WAIT;
		if (from->ended) {
			if (!to->shut && !(to->ended && from->shut)) /* else both are over: closing says it */
				(void)shutdown(to->fd, SHUT_WR);
			to->shut = true;
			return PUMP_ENDED;
		}
		if (!from->readable || !to->writable)
			return PUMP_WAIT;
		if (moved >= PUMP_STEP_MAX || *left == 0)
			return PUMP_MORE;
		n = get(p, from, to, (size_t)MIN(*left, (uint64_t)(PUMP_STEP_MAX - moved)));
		if (n == -EINTR)
			continue;
		if (n == -EAGAIN) {
			from->readable = false;
			return PUMP_WAIT;
		}
		if (n < 0)
			return PUMP_BROKEN;
		from->ended = n == 0;
		moved += (size_t)n;
		*left -= (uint64_t)n;
	}
}

enum pump_result pump_step(struct pump *p, struct pump_side *from, struct pump_side *to,
			   uint64_t *left)
{
	enum pump_result r = step(p, from, to, left);

	return_pipe(p);
	return r;
}

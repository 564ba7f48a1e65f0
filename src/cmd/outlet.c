#include "cmd/outlet.h"
/*
 * The source is hostile only in what and how much it sends; the destination is the caller's and may
 * be anything: a pipe nobody reads, a stopped terminal, a full disk, a socket.
 *
 *      pipe, file          splice(2) with SPLICE_F_NONBLOCK, which never waits for either side.
 *                          EINVAL (O_APPEND, odd file systems) falls back to copying.
 *      terminal            copied through an own non-blocking opening of the same terminal, because
 *                          O_NONBLOCK on the caller's description would change it for its other users
 *      socket              copied with MSG_DONTWAIT
 *      other               copied
 *
 * Our end of the sandbox's pipe becomes non-blocking only when it is read: splice does not need it.
 * EAGAIN of splice does not say which side is not ready: the source is asked again. It may be empty
 * although it was not a moment ago, since the program can open its end of the pipe and read too.
 */
#include "base/cleanup.h"
#include "base/num.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	CHUNK = 64 * 1024,
	SPLICE_CHUNK = 1024 * 1024,
	ROUNDS = 16,           /* per pump: the other descriptors get their turn */
	PIPE_WIDE = 1024 * 1024, /* pipe-max-size of an ordinary user */
	TTY_CHUNK = 512,       /* when the terminal could not be opened again */
};

void outlet_init(struct outlet *o, int dst_fd, size_t keep_max)
{
	*o = (struct outlet){.src_fd = -1, .dst_fd = dst_fd, .own_fd = -1, .quota = UINT64_MAX};
	o->way = dst_fd < 0 ? OUTLET_CAPTURE : OUTLET_UNKNOWN;
	buf_init(&o->held, CHUNK);
	buf_init(&o->kept, keep_max);
}

void outlet_done(struct outlet *o)
{
	if (o->src_fd >= 0)
		(void)close(steal_fd(&o->src_fd));
	if (o->own_fd >= 0)
		(void)close(steal_fd(&o->own_fd));
	buf_done(&o->held);
	buf_done(&o->kept);
}

static void choose_way(struct outlet *o)
{
	char path[32];
	struct stat st;

	o->way = OUTLET_COPY;
	if (fstat(o->dst_fd, &st) < 0)
		return;
	if (S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode)) {
		o->way = OUTLET_SPLICE;
	} else if (S_ISSOCK(st.st_mode)) {
		o->way = OUTLET_SOCKET;
	} else if (S_ISCHR(st.st_mode) && isatty(o->dst_fd)) {
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", o->dst_fd);
		o->own_fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	}
}

static void fail(struct outlet *o, int error)
{
	o->error = error;
	o->way = OUTLET_DROP;
	o->blocked = false;
	buf_consume(&o->held, o->held.len);
}

/* One write to the destination. Bytes written, 0 = blocked or failed. */
static size_t write_some(struct outlet *o, const void *p, size_t n)
{
	ssize_t w;

	do {
		if (o->way == OUTLET_SOCKET)
			w = send(o->dst_fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
		else if (o->own_fd >= 0)
			w = write(o->own_fd, p, n);
		else
			w = write(o->dst_fd, p, o->way == OUTLET_COPY && n > TTY_CHUNK &&
						       isatty(o->dst_fd)
						   ? TTY_CHUNK
						   : n);
	} while (w < 0 && errno == EINTR);
	if (w > 0)
		o->mid_line = o->way == OUTLET_COPY && ((const uint8_t *)p)[w - 1] != '\n';
	if (w >= 0)
		return (size_t)w;
	if (errno == EAGAIN)
		o->blocked = true;
	else
		fail(o, errno);
	return 0;
}

static bool flush_held(struct outlet *o)
{
	while (o->held.len > 0) {
		size_t n = write_some(o, buf_head(&o->held), o->held.len);

		if (n == 0)
			return false;
		buf_consume(&o->held, n);
	}
	return true;
}

static void keep(struct outlet *o, const void *p, size_t n)
{
	n = MIN(n, buf_room(&o->kept));
	if (n > 0 && buf_put(&o->kept, p, n) < 0)
		o->kept.max = o->kept.len; /* out of memory: what is there stays, truncated */
}

/* A pipe is written only while poll says there is room, in pieces that fit then. */
static bool has_room(struct outlet *o)
{
	struct pollfd pf = {.fd = o->dst_fd, .events = POLLOUT};

	if (poll(&pf, 1, 0) == 0)
		o->blocked = true;
	return !o->blocked;
}

size_t outlet_take(struct outlet *o, const void *p, size_t n)
{
	size_t done = 0;

	if (o->way == OUTLET_UNKNOWN)
		choose_way(o);
	if (o->way == OUTLET_CAPTURE)
		keep(o, p, n);
	while (done < n && o->way != OUTLET_CAPTURE && o->way != OUTLET_DROP) {
		size_t some = n - done, w;

		if (o->way == OUTLET_SPLICE) {
			if (!has_room(o))
				break;
			some = MIN(some, (size_t)PIPE_BUF);
		}
		w = write_some(o, (const uint8_t *)p + done, some);
		if (w == 0 && o->blocked)
			break;
		done += w;
	}
	if (o->way == OUTLET_CAPTURE || o->way == OUTLET_DROP)
		done = n;
	o->bytes += done;
	return done;
}

static void source_ended(struct outlet *o)
{
	o->finished = true;
	(void)close(steal_fd(&o->src_fd));
}

/* A command that writes much gets a larger pipe: fewer wake-ups for the same bytes. */
static void widen(struct outlet *o, size_t moved)
{
	if (o->widened || moved < CHUNK / 2)
		return;
	o->widened = true;
	(void)fcntl(o->src_fd, F_SETPIPE_SZ, PIPE_WIDE); /* refused over the user's quota: fine */
}

static void count(struct outlet *o, size_t n)
{
	o->bytes += n;
	if (o->quota != UINT64_MAX)
		o->quota -= n;
}

static bool has_data(int fd)
{
	struct pollfd pf = {.fd = fd, .events = POLLIN};

	return poll(&pf, 1, 0) > 0;
}

/* Returns false when this outlet can do no more now. */
static bool splice_once(struct outlet *o, bool *moved)
{
	size_t want = (size_t)MIN(o->quota, (uint64_t)SPLICE_CHUNK);
	ssize_t n = splice(o->src_fd, NULL, o->dst_fd, NULL, want,
			   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

	if (n > 0) {
		*moved = true;
		count(o, (size_t)n);
		widen(o, (size_t)n);
		return true;
	}
	if (n == 0) {
		source_ended(o);
		return false;
	}
	if (errno == EINTR)
		return true;
	if (errno == EINVAL) {
		o->way = OUTLET_COPY;
		return true;
	}
	if (errno == EAGAIN)
		o->blocked = !*moved && has_data(o->src_fd);
	else
		fail(o, errno);
	return errno != EAGAIN;
}

static bool copy_once(struct outlet *o)
{
	size_t want = (size_t)MIN(o->quota, (uint64_t)CHUNK);
	uint8_t *p;
	ssize_t n;

	if (!flush_held(o))
		return o->way == OUTLET_DROP;
	if (!o->nonblock) {
		o->nonblock = true;
		if (fcntl(o->src_fd, F_SETFL, O_NONBLOCK) < 0)
			return false;
	}
	p = buf_reserve(&o->held, want);
	if (p == NULL) {
		fail(o, ENOMEM);
		return true;
	}
	do
		n = read(o->src_fd, p, want);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) {
		source_ended(o);
		return false;
	}
	count(o, (size_t)n);
	widen(o, (size_t)n);
	if (o->way == OUTLET_CAPTURE)
		keep(o, p, (size_t)n);
	if (o->way == OUTLET_CAPTURE || o->way == OUTLET_DROP)
		return true; /* not committed: gone */
	buf_commit(&o->held, (size_t)n);
	return flush_held(o) || o->way == OUTLET_DROP;
}

void outlet_pump(struct outlet *o)
{
	bool moved = false;

	o->blocked = false;
	for (int i = 0; i < ROUNDS && o->src_fd >= 0 && o->quota > 0; i++) {
		if (o->way == OUTLET_UNKNOWN)
			choose_way(o);
		if (!(o->way == OUTLET_SPLICE ? splice_once(o, &moved) : copy_once(o)))
			break;
	}
	if (o->quota == 0 || o->src_fd < 0) {
		if (o->held.len == 0 || flush_held(o) || o->way == OUTLET_DROP)
			o->finished = true;
		else
			o->finished = false;
	}
}

void outlet_last(struct outlet *o)
{
	int n = 0;

	if (o->src_fd < 0 || ioctl(o->src_fd, FIONREAD, &n) < 0 || n < 0)
		n = 0;
	o->quota = (uint64_t)n;
	if (o->quota == 0 && o->held.len == 0)
		o->finished = true;
	else
		outlet_pump(o);
}

void outlet_want(const struct outlet *o, struct pollfd *pf)
{
	pf->events = 0;
	pf->revents = 0;
	pf->fd = -1;
	if (o->finished)
		return;
	if (o->blocked) {
		pf->fd = o->own_fd >= 0 ? o->own_fd : o->dst_fd;
		pf->events = POLLOUT;
	} else if (o->src_fd >= 0) {
		pf->fd = o->src_fd;
		pf->events = POLLIN;
	}
}

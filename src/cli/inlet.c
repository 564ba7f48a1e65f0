#include "cli/inlet.h"
/*
 * The source is the caller's and trusted with nothing but its bytes; the other end is hostile only
 * in how slowly it reads. As with outlets, EAGAIN of a splice means that the destination is full only
 * if the source still has something: others may read it too. A program that closes its stdin shows
 * as POLLERR on the pipe (or BROKEN on the stream); reading the caller's input stops then, and nothing
 * else changes.
 */
#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 64 * 1024, SPLICE_CHUNK = 1024 * 1024, ROUNDS = 16 };

void inlet_init(struct inlet *i)
{
	*i = (struct inlet){.src_fd = -1, .dst_fd = -1};
	buf_init(&i->held, CHUNK);
}

void inlet_done(struct inlet *i)
{
	inlet_stop(i);
	buf_done(&i->held);
}

void inlet_to_pipe(struct inlet *i, int src_fd, int dst_fd)
{
	i->src_fd = src_fd;
	i->dst_fd = dst_fd;
}

void inlet_to_stream(struct inlet *i, int src_fd, struct stream *s)
{
	i->src_fd = src_fd;
	i->stream = s;
	i->chosen = true;
}

void inlet_stop(struct inlet *i)
{
	i->src_fd = -1;
	i->stream = NULL;
	if (i->dst_fd >= 0)
		(void)close(steal_fd(&i->dst_fd));
	buf_consume(&i->held, i->held.len);
}

static bool is_open(const struct inlet *i) { return i->dst_fd >= 0 || i->stream != NULL; }

/* The source has ended and everything was handed over. */
static void finish(struct inlet *i)
{
	i->src_fd = -1;
	if (i->held.len > 0)
		return;
	if (i->stream != NULL)
		stream_eof(i->stream);
	inlet_stop(i);
}

static void choose(struct inlet *i)
{
	struct stat st;

	i->chosen = true;
	i->moves = fstat(i->src_fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode));
	if (!i->moves)
		(void)fcntl(i->dst_fd, F_SETFL, O_NONBLOCK);
}

static bool has_data(int fd)
{
	struct pollfd pf = {.fd = fd, .events = POLLIN};

	return poll(&pf, 1, 0) > 0;
}

static bool move_once(struct inlet *i, bool *moved)
{
	ssize_t n = splice(i->src_fd, NULL, i->dst_fd, NULL, SPLICE_CHUNK,
			   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

	if (n > 0) {
		*moved = true;
		return true;
	}
	if (n == 0) {
		finish(i);
		return false;
	}
	if (errno == EINTR)
		return true;
	if (errno == EINVAL) {
		i->moves = false;
		(void)fcntl(i->dst_fd, F_SETFL, O_NONBLOCK);
		return true;
	}
	if (errno == EAGAIN)
		i->blocked = !*moved && has_data(i->src_fd);
	else
		inlet_stop(i); /* EPIPE: the program reads no more; others: the input is broken */
	return false;
}

/* Hand over what was read. False when blocked or closed. */
static bool flush(struct inlet *i)
{
	while (i->held.len > 0) {
		ssize_t n = i->stream != NULL
				? stream_write(i->stream, buf_head(&i->held), i->held.len)
				: write(i->dst_fd, buf_head(&i->held), i->held.len);

		if (n < 0 && i->stream == NULL && errno == EINTR)
			continue;
		if (n == 0 || (n < 0 && i->stream == NULL && errno == EAGAIN)) {
			i->blocked = true;
			return false;
		}
		if (n < 0) {
			inlet_stop(i);
			return false;
		}
		buf_consume(&i->held, (size_t)n);
	}
	return true;
}

static bool copy_once(struct inlet *i)
{
	uint8_t *p;
	ssize_t n;

	if (!flush(i))
		return false;
	p = buf_reserve(&i->held, CHUNK);
	if (p == NULL) {
		inlet_stop(i);
		return false;
	}
	n = read(i->src_fd, p, CHUNK);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return false;
	if (n <= 0) {
		finish(i);
		return false;
	}
	buf_commit(&i->held, (size_t)n);
	(void)flush(i);
	return false; /* once per poll: a terminal or socket would block now */
}

void inlet_pump(struct inlet *i)
{
	bool moved = false;

	i->blocked = false;
	if (is_open(i) && i->src_fd < 0 && flush(i))
		finish(i);
	for (int n = 0; n < ROUNDS && is_open(i) && i->src_fd >= 0; n++) {
		if (!i->chosen)
			choose(i);
		if (!(i->moves ? move_once(i, &moved) : copy_once(i)))
			break;
	}
}

void inlet_want(const struct inlet *i, struct pollfd *src, struct pollfd *dst)
{
	*src = (struct pollfd){.fd = -1};
	*dst = (struct pollfd){.fd = -1};
	if (!is_open(i))
		return;
	if (!i->blocked && i->src_fd >= 0)
		*src = (struct pollfd){.fd = i->src_fd, .events = POLLIN};
	if (i->dst_fd >= 0) /* POLLERR comes without asking: the program closed its stdin */
		*dst = (struct pollfd){.fd = i->dst_fd, .events = i->blocked ? POLLOUT : (short)0};
}

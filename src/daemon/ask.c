/*
 * Fed by a keeper, which speaks with a sandbox and is held for hostile: pieces are checked by wire/call.h, one at most is
 * held (72 KiB), and an idle call gives its buffers back. The request waits in `out`, which takes new bytes only while
 * it is nearly empty.
 */
#include "daemon/ask.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "sys/send.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { OUT_MAX = 256 * 1024, OUT_LOW = 64 * 1024, READ_SIZE = 64 * 1024, FIRST_READ = 4096 };

enum { INPUT = EPOLLIN | EPOLLRDHUP };

static void want_output(struct ask *a, bool on)
{
	if (a->wants_output == on)
		return;
	if (loop_change(a->loop, &a->src, INPUT | (on ? (uint32_t)EPOLLOUT : 0u) | EPOLLET) < 0)
		a->deaf = true;
	a->wants_output = on;
}

static void flush(struct ask *a)
{
	if (a->corked && a->out.len <= OUT_LOW)
		return;
	if (!a->deaf && buf_send(&a->out, a->src.fd) < 0)
		a->deaf = true; /* it has hung up; what it said before is still read */
	want_output(a, a->out.len > 0 && !a->deaf);
	if (a->out.len > 0 && !a->deaf)
		return;
	buf_done(&a->out); /* sent, or for nobody: an idle call has no buffers */
}

static void fill(struct ask *a)
{
	while (a->readable && !a->eof) {
		size_t want = MIN(buf_room(&a->in), (size_t)READ_SIZE);
		uint8_t *dst;
		ssize_t n;

		if (want == 0)
			return;
		dst = buf_reserve(&a->in, a->in.len == 0 && a->left == 0 ? MIN(want, (size_t)FIRST_READ) : want);
		if (dst == NULL) {
			a->eof = true;
			return;
		}
		n = recv(a->src.fd, dst, MIN(want, a->in.cap - a->in.off - a->in.len), MSG_DONTWAIT);
		if (n > 0)
			buf_commit(&a->in, (size_t)n);
		else if (n == 0 || (errno != EAGAIN && errno != EINTR))
			a->eof = true;
		else if (errno == EAGAIN)
			a->readable = false;
		if (n > 0)
			return; /* a piece at a time: who reads comes again */
	}
	if (a->in.len == 0)
		buf_done(&a->in);
}

static void ready(struct source *s, uint32_t events)
{
	struct ask *a = (struct ask *)s;

	if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0)
		a->readable = true;
	if ((events & EPOLLOUT) != 0)
		flush(a);
	a->notify(a, a->owner);
}

int ask_open(struct loop *l, const char *path, void (*notify)(struct ask *, void *), void *owner,
	     struct ask **ret)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = -1;
	struct ask *a;
	int r;

	if (strlen(path) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	memcpy(addr.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0)
		return -errno;
	a = calloc(1, sizeof(*a));
	if (a == NULL)
		return -ENOMEM;
	*a = (struct ask){.src = {.ready = ready, .fd = fd}, .loop = l, .notify = notify, .owner = owner};
	buf_init(&a->in, CALL_HEADER + CALL_PIECE_MAX);
	buf_init(&a->out, OUT_MAX);
	r = loop_watch_for(l, &a->src, INPUT | EPOLLET);
	if (r < 0) {
		free(a);
		return r;
	}
	(void)steal_fd(&fd);
	*ret = a;
	return 0;
}

void ask_drop(struct ask *a)
{
	if (a == NULL)
		return;
	loop_drop(&a->src);
	buf_done(&a->in);
	buf_done(&a->out);
	loop_free_later(a->loop, a);
}

int ask_request(struct ask *a, const char *method, const char *target, const struct call_field *f, uint32_t n)
{
	int r = call_put_request(&a->out, method, target, f, n);

	if (r == 0)
		flush(a);
	return r;
}

ssize_t ask_put(struct ask *a, const void *p, size_t n)
{
	int r;

	if (a->deaf)
		return (ssize_t)n; /* nobody wants it: the answer is, or will be, there */
	if (a->out.len > OUT_LOW)
		return 0;
	n = MIN(n, (size_t)CALL_PIECE_MAX);
	r = call_put(&a->out, CALL_BODY, p, n);
	if (r < 0)
		return r;
	flush(a);
	return (ssize_t)n;
}

int ask_put_end(struct ask *a)
{
	int r = a->deaf ? 0 : call_put(&a->out, CALL_END, NULL, 0);

	a->corked = false;
	if (r == 0)
		flush(a);
	return r;
}

void ask_uncork(struct ask *a)
{
	if (!a->corked)
		return;
	a->corked = false;
	flush(a);
}

/* The piece at the front of what came decides what is next. */
static bool step(struct ask *a)
{
	struct call_piece c;
	int used = call_next(buf_head(&a->in), a->in.len, &c);

	if (used == 0)
		return false;
	if (used > 0 && a->phase == ASK_WAITS && c.kind == CALL_RESPONSE) {
		a->phase = ASK_HEAD;
		a->head_n = (size_t)used;
	} else if (used > 0 && a->phase == ASK_BODY && c.kind == CALL_BODY) {
		buf_consume(&a->in, CALL_HEADER);
		a->left = c.n;
	} else if (used > 0 && a->phase == ASK_BODY && c.kind == CALL_END) {
		a->phase = ASK_DONE;
	} else {
		a->phase = ASK_CUT;
	}
	return true;
}

enum ask_phase ask_look(struct ask *a)
{
	while ((a->phase == ASK_WAITS || a->phase == ASK_BODY) && a->left == 0) {
		size_t had = a->in.len;

		if (step(a))
			continue;
		fill(a);
		if (a->in.len == had) {
			if (a->eof)
				a->phase = ASK_CUT;
			break;
		}
	}
	return a->phase;
}

int ask_answer(const struct ask *a, struct call_head *ret)
{
	struct call_piece c;

	if (a->phase != ASK_HEAD || call_next(buf_head(&a->in), a->in.len, &c) <= 0)
		return -EPROTO;
	return call_head(&c, ret);
}

void ask_body_begin(struct ask *a)
{
	buf_consume(&a->in, a->head_n);
	a->phase = ASK_BODY;
}

size_t ask_read(struct ask *a, void *dst, size_t n)
{
	size_t at = 0;

	while (at < n && ask_look(a) == ASK_BODY && a->left > 0) {
		size_t some = MIN(MIN(n - at, a->left), a->in.len); /* the whole piece is there */

		memcpy((uint8_t *)dst + at, buf_head(&a->in), some);
		buf_consume(&a->in, some);
		a->left -= some;
		at += some;
	}
	return at;
}

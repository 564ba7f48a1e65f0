#include "client/pump.h"

#include "base/num.h"
#include "sys/send.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

/* What the daemon says comes from a sandbox and may be anything; of it only the first bytes are
 * looked at. */

enum { PIECE = 64 * 1024 };
static const char SWITCHED[] = "HTTP/1.1 101 ";

enum state { PLAIN, ASKED, SWITCHES };

struct pump {
	CURL *c;
	int daemon_fd, fd;
	struct buf *up, down;
	size_t head_n; /* of up, still to be sent */
	enum state state;
	size_t seen;	       /* bytes of the answer that were as SWITCHED has them */
	bool up_ended;	       /* the client says no more, or the daemon reads no more */
	bool down_ended, over; /* the daemon says no more; nobody is left to talk to */
};

/* The first bytes of the answer decide. */
static void look(struct pump *p, const uint8_t *b, size_t n)
{
	const size_t all = sizeof(SWITCHED) - 1;

	for (size_t i = 0; p->state == ASKED && i < n; i++) {
		if (b[i] != (uint8_t)SWITCHED[p->seen]) {
			p->state = PLAIN;
			p->up_ended = true;
			buf_consume(p->up, p->up->len);
		} else if (++p->seen == all) {
			p->state = SWITCHES;
		}
	}
}

/* Each of these: whether something moved. */

static bool from_daemon(struct pump *p)
{
	uint8_t *b = p->down.len == 0 && !p->down_ended ? buf_reserve(&p->down, PIECE) : NULL;
	size_t got = 0;
	CURLcode code = b != NULL ? curl_easy_recv(p->c, b, PIECE, &got) : CURLE_AGAIN;

	if (code == CURLE_AGAIN)
		return false;
	p->down_ended = code != CURLE_OK || got == 0;
	if (!p->down_ended) {
		look(p, b, got);
		buf_commit(&p->down, got);
	}
	return true;
}

static bool to_client(struct pump *p)
{
	size_t had = p->down.len;

	if (had > 0 && buf_send(&p->down, p->fd) < 0)
		p->over = true;
	p->over |= p->down_ended && p->down.len == 0;
	return p->down.len < had;
}

static bool from_client(struct pump *p)
{
	uint8_t *b = p->up->len == 0 && !p->up_ended ? buf_reserve(p->up, PIECE) : NULL;
	ssize_t n;

	if (b == NULL)
		return false;
	n = recv(p->fd, b, PIECE, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	p->up_ended = n <= 0;
	p->over |= n < 0 || (n == 0 && p->state == SWITCHES); /* it ends with its client */
	if (n > 0)
		buf_commit(p->up, (size_t)n);
	return true;
}

static size_t may_send(const struct pump *p) { return p->state == ASKED ? p->head_n : p->up->len; }

static bool to_daemon(struct pump *p)
{
	size_t n = may_send(p), sent = 0;
	CURLcode code = n > 0 ? curl_easy_send(p->c, buf_head(p->up), n, &sent) : CURLE_AGAIN;

	if (code == CURLE_AGAIN)
		return false;
	if (code != CURLE_OK) { /* it may have answered all the same */
		p->up_ended = true;
		sent = p->up->len;
	}
	p->head_n -= MIN(p->head_n, sent);
	buf_consume(p->up, sent);
	return true;
}

/* False: nothing will move any more. */
static bool wait(const struct pump *p)
{
	struct pollfd pf[2] = {{.fd = p->daemon_fd}, {.fd = p->fd}};

	errno = 0;
	if (p->down.len == 0 && !p->down_ended)
		pf[0].events |= POLLIN;
	if (may_send(p) > 0)
		pf[0].events |= POLLOUT;
	if (p->up->len == 0 && !p->up_ended)
		pf[1].events |= POLLIN;
	if (p->down.len > 0)
		pf[1].events |= POLLOUT;
	for (int i = 0; i < 2; i++)
		if (pf[i].events == 0) /* its hang-up would be told again and again */
			pf[i].fd = -1;
	return poll(pf, 2, p->state == SWITCHES ? -1 : PUMP_IDLE_MS) > 0 || errno == EINTR;
}

void pump(CURL *c, int daemon_fd, int fd, struct buf *up, size_t head_n, bool asked)
{
	struct pump p = {.c = c,
			 .daemon_fd = daemon_fd,
			 .fd = fd,
			 .up = up,
			 .head_n = head_n,
			 .state = asked ? ASKED : PLAIN};
	bool moved;

	buf_init(&p.down, PIECE);
	do {
		moved = from_daemon(&p);
		moved = to_client(&p) || moved;
		moved = from_client(&p) || moved;
		moved = to_daemon(&p) || moved;
	} while (!p.over && (moved || wait(&p)));
	buf_done(&p.down);
}

#include "relay/flow_priv.h"

#include "base/num.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/*
 * A tunnel through the operator's proxy. Everything was decided, and the record written, before it is even connected to; it is
 * told the address that was judged. Its answer is looked at where it lies in the socket and only its head is taken out:
 * what follows it, be it in the same segment, is the server's.
 */

enum { ASK_MAX = 4096 };

/* This try came to nothing. again: another address may do. */
static void failed(struct flow *f, const char *why, bool again)
{
	loop_drop(&f->up);
	f->no_up = why;
	if (!again)
		f->addr_at = MAX(f->addr_n, 1u);
	dial_next(f);
}

void proxy_begin(struct flow *f)
{
	const struct resolve_addr *to = f->by_name ? NULL : &f->addr[f->addr_at - 1];
	struct buf ask;
	bool sent;

	f->state = F_PROXY;
	f->deadline_ms = f->b->loop->now_ms + f->v.limits.connect_timeout_ms;
	buf_init(&ask, ASK_MAX);
	/* all of it at once: what grows leaves copies of the secret behind */
	sent = buf_reserve(&ask, ASK_MAX) != NULL;
	/* the first bytes of a connection: the kernel takes them whole, or something is wrong */
	sent = sent && judge_proxy_ask(&f->dest, to, f->b->proxy_secret, &ask) == 0 &&
	       send(f->up.fd, buf_head(&ask), ask.len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)ask.len;
	if (ask.data != NULL)
		explicit_bzero(ask.data, ask.cap);
	buf_done(&ask);
	if (!sent)
		failed(f, "proxy_unreachable", false);
	else
		proxy_ready(f);
}

static void refused(struct flow *f, uint32_t status)
{
	if (status == 407)
		failed(f, "proxy_credentials", false);
	else /* 5xx: it did not get there, and may get to another address */
		failed(f, "proxy_refused", status >= 500);
}

void proxy_ready(struct flow *f)
{
	static uint8_t seen[PROXY_ANSWER_MAX]; /* of the one thread */
	ssize_t n = recv(f->up.fd, seen, sizeof(seen), MSG_PEEK | MSG_DONTWAIT), size;
	uint32_t status;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		failed(f, "proxy_unreachable", false);
		return;
	}
	size = judge_proxy_answer(seen, (size_t)n, &status);
	if (size == -ECONNREFUSED)
		refused(f, status);
	else if (size < 0 || (size > 0 && recv(f->up.fd, seen, (size_t)size, MSG_DONTWAIT) != size))
		failed(f, "proxy_odd", false);
	else if (size > 0)
		dial_done(f);
}

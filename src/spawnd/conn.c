#include "spawnd/priv.h"

#include "base/num.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * Connections of those who ask. Each is hostile until its uid is known, and held for hostile afterwards: a message that is
 * malformed ends the connection, and so does an asker that does not read what it asked for.
 */

enum { OUT_MAX = 4 << 20 }; /* a LIST of all there can be, and more */

static bool may_ask(const struct server *s, int fd)
{
	struct ucred who;
	socklen_t n = sizeof(who);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 &&
	       (who.uid == 0 || who.uid == geteuid() || who.uid == s->a->client_uid);
}

static void drop(struct conn *c)
{
	struct server *s = c->s;
	struct conn **p = &s->conns;

	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	s->stop = s->stop || c->owner;
	loop_drop(&c->src);
	buf_done(&c->out);
	loop_free_later(&s->loop, c);
}

/* What waits, as far as the socket takes it. False: the connection is gone. */
static bool flush(struct conn *c)
{
	while (c->out.len > 0) {
		const uint8_t *p = buf_head(&c->out);
		uint32_t n = load_le32(p);

		if (send(c->src.fd, p + 4, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
			if (errno == EINTR)
				continue;
			return errno == EAGAIN;
		}
		buf_consume(&c->out, 4 + (size_t)n);
	}
	return true;
}

static bool take(struct conn *c)
{
	static char msg[sizeof(struct spawnd_ask) + SPAWND_TEXT_MAX + 1]; /* larger than any that is good */
	struct asker who = {.conn = c->nr};
	struct server *s = c->s;
	struct spawnd_ask a;
	const char *text = NULL;
	struct err e = ERR_INIT;
	ssize_t n = recv(c->src.fd, msg, sizeof(msg), MSG_DONTWAIT | MSG_TRUNC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0 || (size_t)n > sizeof(msg) || spawnd_ask_check(msg, (size_t)n, &a, &text, &e) < 0) {
		drop(c);
		return false;
	}
	who.seq = a.seq;
	ask_serve(s, &who, &a, text);
	return c->src.fd >= 0;
}

static void on_conn(struct source *src, uint32_t events)
{
	struct conn *c = (struct conn *)(void *)src;

	if ((events & EPOLLOUT) != 0 && !flush(c)) {
		drop(c);
		return;
	}
	if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0)
		while (take(c))
			;
}

int conn_open(struct server *s, int fd, bool owner)
{
	struct conn *c = NULL;
	uint32_t n = 0;
	int room = 1 << 20, r = -ENOMEM;

	for (const struct conn *k = s->conns; k != NULL; k = k->next)
		n++;
	if (owner || (may_ask(s, fd) && n < CONNS_MAX))
		c = calloc(1, sizeof(*c));
	if (c == NULL) {
		(void)close(fd);
		return owner ? -ENOMEM : 0;
	}
	*c = (struct conn){.src = {.ready = on_conn, .fd = fd}, .s = s, .nr = ++s->conn_nr, .owner = owner};
	buf_init(&c->out, OUT_MAX);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	r = loop_watch(&s->loop, &c->src);
	if (r < 0) {
		(void)close(fd);
		free(c);
		return r;
	}
	c->next = s->conns;
	s->conns = c;
	return 0;
}

void conn_close_all(struct server *s)
{
	while (s->conns != NULL)
		drop(s->conns);
}

static void tell_one(struct conn *c, const struct spawnd_tell *t, const char *text)
{
	uint32_t n = (uint32_t)sizeof(*t) + t->text_n;

	if (c->src.fd < 0)
		return;
	if (buf_put(&c->out, &n, sizeof(n)) < 0 || buf_put(&c->out, t, sizeof(*t)) < 0 ||
	    (t->text_n > 0 && buf_put(&c->out, text, t->text_n) < 0) || !flush(c))
		drop(c);
}

void conn_tell(struct server *s, const struct asker *who, const struct spawnd_tell *t, const char *text)
{
	struct conn *next;

	for (struct conn *c = s->conns; c != NULL; c = next) {
		next = c->next;
		if (who == NULL || who->conn == c->nr)
			tell_one(c, t, text);
	}
}

void conn_reply(struct server *s, const struct asker *who, int r, const struct err *e)
{
	struct spawnd_tell t = {.kind = SPAWND_REPLY, .seq = who->seq, .ret = r < 0 ? r : 0};

	if (r < 0) {
		t.fault = e->kind != ERR_NONE ? (uint32_t)e->kind : (uint32_t)ERR_INTERNAL;
		(void)snprintf(t.why, sizeof(t.why), "%s", e->msg);
	}
	conn_tell(s, who, &t, NULL);
}

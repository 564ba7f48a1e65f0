/*
 * One client with TLS: the handshake, then records to the server's end of a socket pair and back. Each way holds one record's text
 * and what the pair holds; a side that does not read stops the other.
 *
 * Ends: a client's close_notify, or its socket's end without one, is the end of what it says, not of what it hears; HTTP says for
 * itself whether all was there. The server's end is passed on likewise. A reset, and anything that is no TLS, ends both.
 */
#include "api/tls_conn.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "sys/send.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
	PART = 16 * 1024,      /* a record's text (RFC 8446 §5.1) */
	ROUNDS = 16,           /* of one connection in one turn */
	PAIR = 64 * 1024,      /* each way; the kernel doubles it */
	HELLO_MAX = 32 * 1024, /* a message of a handshake */
	JUNK_ROUNDS = 16,
};

/* ---- the client's socket, for GnuTLS ---- */

/* Its end is kept from GnuTLS, which would not let us answer any more. */
static ssize_t pull(gnutls_transport_ptr_t p, void *dst, size_t n)
{
	struct tls_conn *c = p;
	ssize_t got = c->cut ? 0 : recv(c->net.fd, dst, n, MSG_DONTWAIT);

	if (got == 0) {
		c->cut = true;
		errno = EAGAIN;
		got = -1;
	}
	c->waits |= got < 0 && errno == EAGAIN;
	return got;
}

static ssize_t push(gnutls_transport_ptr_t p, const giovec_t *v, int n)
{
	struct tls_conn *c = p;
	struct iovec copy[8];
	struct msghdr m = {.msg_iov = copy};
	ssize_t put;

	for (; m.msg_iovlen < ARRAY_LEN(copy) && (int)m.msg_iovlen < n; m.msg_iovlen++)
		copy[m.msg_iovlen] = (struct iovec){.iov_base = v[m.msg_iovlen].iov_base, .iov_len = v[m.msg_iovlen].iov_len};
	put = sendmsg(c->net.fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	c->waits |= put < 0 && errno == EAGAIN;
	return put;
}

/* What a call of GnuTLS that did not succeed means: 0 wait for an event, 1 call again, -1 it is over. A new handshake is not
 * granted. */
static int not_now(const struct tls_conn *c, ssize_t r)
{
	if (r == GNUTLS_E_REHANDSHAKE || gnutls_error_is_fatal((int)r) != 0)
		return -1;
	return c->waits ? 0 : 1;
}

/* What is left to send has its deadline, since the server waits for nobody any more. */
static void deaf(struct tls_conn *c)
{
	if (!c->deaf)
		tls_deadline(c);
	c->deaf = true;
	buf_done(&c->up);
}

/* ---- both ways: 1 something moved, 0 not now, -1 it is over ---- */

static int upwards(struct tls_conn *c)
{
	size_t before;

	if (c->deaf)
		return 0;
	if (c->up.len == 0 && !c->client_ended) {
		uint8_t *p = buf_reserve(&c->up, PART);
		ssize_t n;
		int r;

		if (p == NULL)
			return -1;
		c->waits = false;
		n = gnutls_record_recv(c->session, p, PART);
		if (n < 0 && (r = not_now(c, n)) != 0) {
			if (r < 0)
				(void)gnutls_alert_send_appropriate(c->session, (int)n);
			return r;
		}
		if (n < 0 && !c->cut)
			return 0;
		buf_commit(&c->up, n > 0 ? (size_t)n : 0);
		c->client_ended = n <= 0;
	}
	if (c->up.len == 0) {
		if (c->told)
			return 0;
		c->told = true;
		(void)shutdown(c->in.src.fd, SHUT_WR);
		return 1;
	}
	before = c->up.len;
	if (buf_send(&c->up, c->in.src.fd) < 0)
		deaf(c);
	return c->up.len < before;
}

static int say_end(struct tls_conn *c)
{
	int r;

	if (c->said)
		return 0;
	c->waits = false;
	r = gnutls_bye(c->session, GNUTLS_SHUT_WR);
	if (r < 0 && (r = not_now(c, r)) >= 0)
		return r;
	c->said = true;
	(void)shutdown(c->net.fd, SHUT_WR);
	return 1;
}

static int downwards(struct tls_conn *c)
{
	ssize_t n;

	if (c->down.len == 0 && !c->server_ended) {
		uint8_t *p = buf_reserve(&c->down, PART);

		if (p == NULL)
			return -1;
		n = recv(c->in.src.fd, p, PART, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			return 0;
		buf_commit(&c->down, n > 0 ? (size_t)n : 0);
		if (n <= 0) { /* closed with bytes unread: ECONNRESET */
			c->server_ended = true;
			tls_deadline(c);
		}
	}
	if (c->down.len == 0)
		return say_end(c);
	c->waits = false;
	/* the same again until it is taken; of TLS 1.2, GnuTLS does not keep to the size that a client asked for (RFC 6066 §4) */
	n = gnutls_record_send(c->session, buf_head(&c->down), MIN(c->down.len, gnutls_record_get_max_size(c->session)));
	if (n < 0)
		return not_now(c, n);
	buf_consume(&c->down, (size_t)n);
	if (c->server_ended || c->deaf)
		tls_deadline(c);
	return 1;
}

/* The server's reads would each wake us for room that nobody waits for. */
static int watch_room(struct tls_conn *c)
{
	bool wanted = c->up.len > 0;

	if (wanted == c->writes)
		return 0;
	c->writes = wanted;
	return loop_change(c->f->loop, &c->in.src, EPOLLIN | EPOLLRDHUP | EPOLLET | (wanted ? (uint32_t)EPOLLOUT : 0));
}

/* ---- the handshake, and the server's end ---- */

static void on_inner(struct source *s, uint32_t events)
{
	struct tls_conn *c = ((struct tls_inner *)s)->c;

	if ((events & (EPOLLHUP | EPOLLERR)) != 0)
		deaf(c);
	tls_conn_step(c);
}

static int to_server(struct tls_conn *c)
{
	union {
		struct sockaddr any;
		struct sockaddr_storage room;
	} addr;
	socklen_t n = sizeof(addr);
	int pair[2], size = PAIR, on = 1;

	if (getpeername(c->net.fd, &addr.any, &n) < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -1;
	for (int i = 0; i < 2; i++)
		(void)setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	c->in = (struct tls_inner){.src = {.ready = on_inner, .fd = pair[0]}, .c = c};
	if (loop_watch_for(c->f->loop, &c->in.src, EPOLLIN | EPOLLRDHUP | EPOLLET) < 0) {
		(void)close(pair[1]);
		return -1;
	}
	/* a client with Nagle's algorithm holds its request until its Finished is acknowledged, which else waits 40 ms for our answer */
	(void)setsockopt(c->net.fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on));
	tls_list_take(c, TLS_TIMED);
	c->f->s.take(c->f->s.cls, pair[1], &addr.any, n);
	return 1;
}

/* 1 done, 0 not now, -1 it is over. */
static int shake(struct tls_conn *c)
{
	for (int i = 0; i < ROUNDS; i++) {
		int r, next;

		c->waits = false;
		r = gnutls_handshake(c->session);
		if (r == 0)
			return to_server(c);
		next = not_now(c, r);
		if (next < 0)
			(void)gnutls_alert_send_appropriate(c->session, r);
		if (next < 0 || c->cut)
			return -1;
		if (next == 0)
			return 0;
	}
	tls_list_put(c, TLS_AGAIN);
	return 0;
}

/* ---- */

void tls_conn_step(struct tls_conn *c)
{
	int up = 1, down = 1, r = c->in.src.fd < 0 ? shake(c) : 1;

	if (r == 0)
		return;
	for (int i = 0; r > 0 && i < ROUNDS && (up > 0 || down > 0); i++) {
		up = upwards(c);
		down = downwards(c);
		r = up < 0 || down < 0 ? -1 : 1;
	}
	if (r < 0 || (c->said && (c->client_ended || c->deaf)) || watch_room(c) < 0) {
		tls_conn_end(c);
		return;
	}
	if (c->up.len == 0) /* an idle one holds nothing */
		buf_done(&c->up);
	if (c->down.len == 0)
		buf_done(&c->down);
	if (up > 0 || down > 0)
		tls_list_put(c, TLS_AGAIN);
}

void tls_conn_end(struct tls_conn *c)
{
	char junk[4096];

	/* bytes that nobody has read would make a reset of the end, which overtakes what was sent before */
	(void)shutdown(c->net.fd, SHUT_WR);
	for (int i = 0; i < JUNK_ROUNDS && recv(c->net.fd, junk, sizeof(junk), MSG_DONTWAIT) > 0; i++)
		;
	tls_left(c);
	gnutls_deinit(c->session);
	loop_drop(&c->net);
	loop_drop(&c->in.src);
	buf_done(&c->up);
	buf_done(&c->down);
	loop_free_later(c->f->loop, c);
}

static void on_net(struct source *s, uint32_t events)
{
	struct tls_conn *c = (struct tls_conn *)s;

	if ((events & (EPOLLHUP | EPOLLERR)) != 0)
		tls_conn_end(c);
	else
		tls_conn_step(c);
}

static int session_open(struct tls_conn *c)
{
	static const char one[] = "http/1.1", zero[] = "http/1.0";
	union {
		const char *text;
		unsigned char *data; /* GnuTLS only reads it */
	} first = {.text = one}, second = {.text = zero};
	const gnutls_datum_t protocols[] = {{first.data, sizeof(one) - 1}, {second.data, sizeof(zero) - 1}};

	if (gnutls_init(&c->session, GNUTLS_SERVER | GNUTLS_NONBLOCK) < 0)
		return -1;
	gnutls_transport_set_ptr(c->session, c);
	gnutls_transport_set_pull_function(c->session, pull);
	gnutls_transport_set_vec_push_function(c->session, push);
	gnutls_handshake_set_max_packet_length(c->session, HELLO_MAX);
	if (gnutls_priority_set(c->session, c->f->priority) < 0 ||
	    gnutls_credentials_set(c->session, GNUTLS_CRD_CERTIFICATE, c->f->s.cred) < 0 ||
	    gnutls_alpn_set_protocols(c->session, protocols, ARRAY_LEN(protocols), 0) < 0)
		return -1;
	return 0;
}

void tls_conn_new(struct tls_front *f, int fd)
{
	struct tls_conn *c = calloc(1, sizeof(*c));
	int on = 1;

	if (c == NULL) {
		(void)close(fd);
		return;
	}
	*c = (struct tls_conn){.net = {.ready = on_net, .fd = fd}, .in = {.src = {.fd = -1}}, .f = f};
	buf_init(&c->up, PART);
	buf_init(&c->down, PART);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* not of a unix socket */
	f->n++;
	tls_list_put(c, TLS_ALL);
	tls_deadline(c);
	if (session_open(c) < 0 || loop_watch(f->loop, &c->net) < 0)
		tls_conn_end(c);
}

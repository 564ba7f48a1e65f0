#include "inspect/side.h"

#include "base/num.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <string.h>
#include <sys/socket.h>

/*
 * The library reads and writes through a BIO of ours, so that it first gets what was read before it was there, and so that
 * our flags know when the socket has no more.
 */

enum { KEEP_IDLE = 4096 }; /* an empty buffer smaller than this is kept */

static ssize_t raw_read(struct side *s, void *p, size_t n)
{
	ssize_t got;

	do
		got = recv(s->src.fd, p, n, MSG_DONTWAIT);
	while (got < 0 && errno == EINTR);
	if (got < 0 && errno == EAGAIN)
		s->readable = false;
	else if (got < 0)
		s->broken = true;
	return got;
}

static ssize_t raw_write(struct side *s, const void *p, size_t n)
{
	ssize_t put;

	do
		put = send(s->src.fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (put < 0 && errno == EINTR);
	if (put < 0 && errno == EAGAIN)
		s->writable = false;
	else if (put < 0)
		s->broken = true;
	return put;
}

/* ---- the BIO ---- */

static int bio_read(BIO *b, char *p, int n)
{
	struct side *s = (struct side *)BIO_get_data(b);
	ssize_t got;

	BIO_clear_retry_flags(b);
	if (n <= 0)
		return 0;
	if (s->early.len > 0) {
		got = (ssize_t)MIN((size_t)n, s->early.len);
		memcpy(p, buf_head(&s->early), (size_t)got);
		buf_consume(&s->early, (size_t)got);
		if (s->early.len == 0)
			buf_done(&s->early);
		return (int)got;
	}
	got = s->readable ? raw_read(s, p, (size_t)n) : -1;
	if (got < 0 && !s->broken)
		BIO_set_retry_read(b);
	return (int)got;
}

static int bio_write(BIO *b, const char *p, int n)
{
	struct side *s = (struct side *)BIO_get_data(b);
	ssize_t put;

	BIO_clear_retry_flags(b);
	put = s->writable && n > 0 ? raw_write(s, p, (size_t)n) : -1;
	if (put < 0 && !s->broken)
		BIO_set_retry_write(b);
	return (int)put;
}

static long bio_ctrl(BIO *b, int cmd, long num, void *p)
{
	(void)b;
	(void)num;
	(void)p;
	return cmd == BIO_CTRL_FLUSH ? 1 : 0;
}

static BIO *new_bio(struct side *s)
{
	static BIO_METHOD *m;
	BIO *b;

	if (m == NULL) {
		m = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "side");
		if (m == NULL || BIO_meth_set_read(m, bio_read) != 1 || BIO_meth_set_write(m, bio_write) != 1 ||
		    BIO_meth_set_ctrl(m, bio_ctrl) != 1)
			return NULL;
	}
	b = BIO_new(m);
	if (b == NULL)
		return NULL;
	BIO_set_data(b, s);
	BIO_set_init(b, 1);
	return b;
}

/* ---- */

void side_init(struct side *s)
{
	*s = (struct side){.src = {.fd = -1}};
	buf_init(&s->early, SIDE_ROOM);
	buf_init(&s->in, SIDE_ROOM);
	buf_init(&s->out, SIDE_ROOM * 2);
}

void side_open(struct side *s, int fd)
{
	s->src.fd = fd;
	s->readable = s->writable = s->shaken = true;
}

int side_tls(struct side *s, SSL *tls)
{
	BIO *b = tls != NULL ? new_bio(s) : NULL;

	if (b == NULL) {
		SSL_free(tls);
		return -ENOMEM;
	}
	SSL_set_bio(tls, b, b);
	s->tls = tls;
	s->shaken = false;
	return 0;
}

void side_close(struct side *s, bool hard)
{
	/* the gate made it one that is reset when this process ends */
	struct linger now = {.l_onoff = hard};

	if (s->src.fd >= 0)
		(void)setsockopt(s->src.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	SSL_free(s->tls);
	s->tls = NULL;
	loop_drop(&s->src);
	buf_done(&s->early);
	if (s->in.data != NULL)
		explicit_bzero(s->in.data, s->in.cap);
	if (s->out.data != NULL)
		explicit_bzero(s->out.data, s->out.cap); /* heads with secrets */
	buf_done(&s->in);
	buf_done(&s->out);
	s->readable = s->writable = false;
	s->broken = true;
}

int side_shake(struct side *s)
{
	int r, why;

	if (s->shaken)
		return 1;
	if (s->broken)
		return -EPROTO;
	ERR_clear_error();
	r = SSL_do_handshake(s->tls);
	if (r == 1) {
		s->shaken = true;
		return 1;
	}
	why = SSL_get_error(s->tls, r);
	if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
		return 0;
	s->cert_bad = SSL_get_verify_result(s->tls) != X509_V_OK;
	s->broken = true;
	return -EPROTO;
}

size_t side_early(struct side *s, size_t max)
{
	size_t want = s->early.len < max ? MIN(max - s->early.len, (size_t)SIDE_READ) : 0;
	uint8_t *p = want > 0 && s->readable && !s->ended && !s->broken ? buf_reserve(&s->early, want) : NULL;
	ssize_t n;

	if (p == NULL)
		return 0;
	n = raw_read(s, p, want);
	s->ended = n == 0;
	if (n <= 0)
		return 0;
	buf_commit(&s->early, (size_t)n);
	return (size_t)n;
}

static ssize_t read_tls(struct side *s, uint8_t *p, size_t n)
{
	size_t got = 0;
	int r, why;

	ERR_clear_error();
	r = SSL_read_ex(s->tls, p, n, &got);
	if (r == 1)
		return (ssize_t)got;
	why = SSL_get_error(s->tls, r);
	if (why == SSL_ERROR_ZERO_RETURN)
		return 0;
	if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
		s->broken = true; /* an end without its alert too: what was cut off must not look whole */
	return -1;
}

size_t side_fill(struct side *s)
{
	size_t want = MIN(buf_room(&s->in), (size_t)SIDE_READ);
	uint8_t *p;
	ssize_t n;

	if (want == 0 || s->ended || s->broken || !s->shaken || (s->tls == NULL && !s->readable) ||
	    (s->tls != NULL && !s->readable && s->early.len == 0 && SSL_has_pending(s->tls) == 0))
		return 0;
	if (s->tls == NULL && s->early.len > 0) { /* plain: what was read early is content */
		n = (ssize_t)MIN(want, s->early.len);
		if (buf_put(&s->in, buf_head(&s->early), (size_t)n) < 0)
			return 0;
		buf_consume(&s->early, (size_t)n);
		s->got += (uint64_t)n;
		return (size_t)n;
	}
	p = buf_reserve(&s->in, want);
	if (p == NULL)
		return 0;
	n = s->tls != NULL ? read_tls(s, p, want) : raw_read(s, p, want);
	if (n == 0)
		s->ended = true;
	if (n > 0) {
		buf_commit(&s->in, (size_t)n);
		s->got += (uint64_t)n;
	} else if (s->in.len == 0) {
		buf_done(&s->in); /* an idle connection holds no buffers */
	}
	return n > 0 ? (size_t)n : 0;
}

static ssize_t write_tls(struct side *s, const uint8_t *p, size_t n)
{
	size_t put = 0;
	int r, why;

	ERR_clear_error();
	r = SSL_write_ex(s->tls, p, n, &put);
	if (r == 1)
		return (ssize_t)put;
	why = SSL_get_error(s->tls, r);
	if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
		s->broken = true;
	return -1;
}

bool side_flush(struct side *s)
{
	bool went = false;

	while (s->out.len > 0 && s->writable && s->shaken && !s->broken) {
		const uint8_t *p = buf_head(&s->out);
		ssize_t n = s->tls != NULL ? write_tls(s, p, s->out.len) : raw_write(s, p, s->out.len);

		if (n <= 0)
			break;
		buf_consume(&s->out, (size_t)n);
		s->put += (uint64_t)n;
		went = true;
	}
	if (s->out.len == 0 && s->out.cap > KEEP_IDLE)
		buf_done(&s->out);
	return went;
}

void side_shut(struct side *s)
{
	if (s->shut || s->broken || s->src.fd < 0 || s->out.len > 0)
		return;
	s->shut = true;
	if (s->tls != NULL && s->shaken)
		(void)SSL_shutdown(s->tls);
	(void)shutdown(s->src.fd, SHUT_WR);
}

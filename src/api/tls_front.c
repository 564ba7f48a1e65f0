/* Accepting, the bound on connections, and deadlines: all have the same length, so the list is in their order. */
#include "api/tls_conn.h"

#include "base/cleanup.h"
#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { ACCEPTS = 64 /* in one turn */, RETRY_MS = 100 };

/* What today's clients speak. Nothing of a session is kept, so there is none to resume. */
static const char priorities[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:%NO_TICKETS";

/* ---- lists ---- */

void tls_list_take(struct tls_conn *c, enum tls_list l)
{
	struct tls_conn *next = c->link[l].next, *prev = c->link[l].prev;

	if ((c->listed & 1U << l) == 0)
		return;
	c->listed &= ~(1U << l);
	if (prev != NULL)
		prev->link[l].next = next;
	else
		c->f->lists[l].first = next;
	if (next != NULL)
		next->link[l].prev = prev;
	else
		c->f->lists[l].last = prev;
}

void tls_list_put(struct tls_conn *c, enum tls_list l)
{
	struct tls_conn *last;

	tls_list_take(c, l);
	last = c->f->lists[l].last;
	c->link[l].next = NULL;
	c->link[l].prev = last;
	if (last != NULL)
		last->link[l].next = c;
	else
		c->f->lists[l].first = c;
	c->f->lists[l].last = c;
	c->listed |= 1U << l;
}

void tls_deadline(struct tls_conn *c)
{
	c->until_ms = loop_clock_ms() + c->f->s.seconds * UINT64_C(1000);
	tls_list_put(c, TLS_TIMED);
}

void tls_left(struct tls_conn *c)
{
	struct tls_front *f = c->f;

	for (unsigned l = 0; l < TLS_LISTS; l++)
		tls_list_take(c, (enum tls_list)l);
	f->n--;
	f->more |= f->full;
	f->full = false;
}

/* ---- accepting ---- */

static void accept_some(struct tls_front *f)
{
	f->more = false;
	f->retry_ms = 0;
	if (f->listener.fd < 0)
		return;
	for (int i = 0; i < ACCEPTS; i++) {
		int fd;

		if (f->n >= f->s.connections) {
			f->full = true;
			return;
		}
		/* cppcheck-suppress nullPointer ; nobody wants the address */
		fd = accept4(f->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0 && errno == EAGAIN)
			return;
		if (fd < 0 && errno != EINTR && errno != ECONNABORTED) { /* no descriptor, no memory */
			f->retry_ms = loop_clock_ms() + RETRY_MS;
			return;
		}
		if (fd >= 0)
			tls_conn_new(f, fd);
	}
	f->more = true;
}

static void on_listener(struct source *s, uint32_t events)
{
	(void)events;
	((struct tls_front *)s)->more = true; /* the next turn's work */
}

int tls_front_open(struct loop *l, int listen_fd, const struct tls_setup *s, struct tls_front **ret, struct err *e)
{
	struct tls_front *f = calloc(1, sizeof(*f));
	int r;

	if (f == NULL) {
		(void)close(listen_fd);
		gnutls_certificate_free_credentials(s->cred);
		return err_no_memory(e);
	}
	*f = (struct tls_front){.listener = {.ready = on_listener, .fd = listen_fd}, .loop = l, .s = *s};
	r = gnutls_priority_init(&f->priority, priorities, NULL);
	if (r < 0) {
		tls_front_close(f);
		return err_set(e, ERR_INTERNAL, EIO, "tls: %s", gnutls_strerror(r));
	}
	r = loop_watch_for(l, &f->listener, EPOLLIN | EPOLLET);
	if (r < 0) {
		tls_front_close(f);
		return err_set(e, ERR_INTERNAL, -r, "watch the listening socket");
	}
	*ret = f;
	return 0;
}

/* ---- the loop ---- */

static int wait_ms(const struct tls_front *f, uint64_t now)
{
	const struct tls_conn *timed = f->lists[TLS_TIMED].first;
	uint64_t at = timed != NULL ? timed->until_ms : UINT64_MAX;

	if (f->more || f->lists[TLS_AGAIN].first != NULL)
		return 0;
	if (f->retry_ms != 0)
		at = MIN(at, f->retry_ms);
	if (at == UINT64_MAX)
		return -1;
	return at > now ? (int)MIN(at - now, UINT64_C(60000)) : 0;
}

int tls_front_turn(struct tls_front *f)
{
	const struct tls_conn *last;
	uint64_t now = loop_clock_ms();
	struct tls_conn *c;

	if (f == NULL)
		return -1;
	while ((c = f->lists[TLS_TIMED].first) != NULL && c->until_ms <= now)
		tls_conn_end(c);
	if (f->more || (f->retry_ms != 0 && f->retry_ms <= now))
		accept_some(f);
	last = f->lists[TLS_AGAIN].last;
	while ((c = f->lists[TLS_AGAIN].first) != NULL) {
		bool done = c == last;

		tls_list_take(c, TLS_AGAIN);
		tls_conn_step(c);
		if (done)
			break;
	}
	return wait_ms(f, now);
}

/* ---- the end ---- */

uint32_t tls_front_busy(const struct tls_front *f)
{
	uint32_t ret = 0;

	for (const struct tls_conn *c = f != NULL ? f->lists[TLS_ALL].first : NULL; c != NULL; c = c->link[TLS_ALL].next) {
		int n = 0;

		if (c->in.src.fd >= 0)
			ret += c->down.len > 0 || (ioctl(c->in.src.fd, FIONREAD, &n) == 0 && n > 0);
	}
	return ret;
}

void tls_front_quiesce(struct tls_front *f)
{
	if (f == NULL)
		return;
	loop_drop(&f->listener);
	f->retry_ms = 0;
	for (struct tls_conn *c = f->lists[TLS_ALL].first, *next; c != NULL; c = next) {
		next = c->link[TLS_ALL].next;
		if (c->in.src.fd < 0)
			tls_conn_end(c);
	}
}

void tls_front_close(struct tls_front *f)
{
	struct tls_conn *c;

	if (f == NULL)
		return;
	tls_front_quiesce(f);
	while ((c = f->lists[TLS_ALL].first) != NULL) {
		tls_conn_step(c);
		if (f->lists[TLS_ALL].first == c)
			tls_conn_end(c);
	}
	gnutls_priority_deinit(f->priority);
	gnutls_certificate_free_credentials(f->s.cred);
	free(f);
}

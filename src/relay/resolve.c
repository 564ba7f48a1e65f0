#include "relay/resolve.h"

#include "base/num.h"
#include "sys/pages.h"

#include <ares.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/*
 * Every option of c-ares is given, so it reads no file of the host (/etc/resolv.conf, /etc/hosts) and no
 * environment: the gate's process may open none. The name asked for is the rule's, already
 * canonical; no search list is applied to it.
 */

struct ares_fd {
	struct source src;
	struct resolver *r;
	struct ares_fd *next;
};

struct resolver {
	struct loop *loop;
	ares_channel ch;
	struct ares_fd *fds;
	bool opened;
};

struct question {
	resolve_fn fn;
	void *arg;
};

static void fd_ready(struct source *s, uint32_t events)
{
	struct ares_fd *f = (struct ares_fd *)s;
	int fd = s->fd;

	ares_process_fd(f->r->ch, (events & ~(uint32_t)EPOLLOUT) != 0 ? fd : ARES_SOCKET_BAD,
			(events & EPOLLOUT) != 0 ? fd : ARES_SOCKET_BAD);
}

static void forget(struct resolver *r, int fd)
{
	for (struct ares_fd **at = &r->fds; *at != NULL; at = &(*at)->next) {
		struct ares_fd *f = *at;

		if (f->src.fd != fd)
			continue;
		*at = f->next;
		f->src.fd = -1; /* c-ares closes it */
		loop_free_later(r->loop, f);
		return;
	}
}

/* c-ares says what it waits for on a socket; nothing any more means that it is about to close it. */
static void on_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct resolver *r = (struct resolver *)arg;
	struct ares_fd *f;

	if (readable == 0 && writable == 0) {
		forget(r, fd);
		return;
	}
	for (f = r->fds; f != NULL; f = f->next)
		if (f->src.fd == fd)
			return;
	f = calloc(1, sizeof(*f));
	if (f == NULL)
		return; /* the question will time out */
	f->src = (struct source){.ready = fd_ready, .fd = fd};
	f->r = r;
	f->next = r->fds;
	r->fds = f;
	if (loop_watch(r->loop, &f->src) < 0)
		return; /* as above */
}

/*
 * c-ares' memory. The table of a channel's questions is 72 KiB that are written at once: page by page that would be a fifth of
 * the time this process takes to be ready (sys/pages.h).
 */
static void *get_memory(size_t n)
{
	enum { LARGE = 32 * 1024 };
	void *p = malloc(n);

	if (p != NULL && n >= LARGE)
		pages_make(p, n);
	return p;
}

int resolver_new(struct loop *l, const char *servers, struct resolver **ret)
{
	char lookups[] = "b";
	struct in_addr placeholder = {.s_addr = htonl(INADDR_LOOPBACK)};
	struct ares_options o = {.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
				 .timeout = 2000,
				 .tries = 3,
				 .ndots = 1,
				 .servers = &placeholder,
				 .nservers = 1,
				 .lookups = lookups};
	const int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS | ARES_OPT_SERVERS |
			 ARES_OPT_LOOKUPS | ARES_OPT_DOMAINS | ARES_OPT_SORTLIST | ARES_OPT_SOCK_STATE_CB;
	struct resolver *r = calloc(1, sizeof(*r));
	int rc;

	if (r == NULL)
		return -ENOMEM;
	if (ares_library_init_mem(ARES_LIB_INIT_ALL, get_memory, free, realloc) != ARES_SUCCESS) {
		free(r);
		return -ENOMEM;
	}
	r->loop = l;
	o.sock_state_cb = on_state;
	o.sock_state_cb_data = r;
	rc = ares_init_options(&r->ch, &o, mask);
	r->opened = rc == ARES_SUCCESS;
	if (r->opened)
		rc = ares_set_servers_ports_csv(r->ch, servers);
	if (rc != ARES_SUCCESS) {
		resolver_free(r);
		return rc == ARES_ENOMEM ? -ENOMEM : -EINVAL;
	}
	*ret = r;
	return 0;
}

void resolver_free(struct resolver *r)
{
	if (r == NULL)
		return;
	if (r->opened)
		ares_destroy(r->ch);
	while (r->fds != NULL)
		forget(r, r->fds->src.fd);
	ares_library_cleanup(); /* counted */
	free(r);
}

static void add_addr(struct resolve_result *out, const struct ares_addrinfo_node *n)
{
	struct resolve_addr *a = &out->addr[out->n];

	if (out->n >= RESOLVE_ADDRS_MAX)
		return;
	if (n->ai_family == AF_INET && n->ai_addrlen >= (ares_socklen_t)sizeof(struct sockaddr_in)) {
		struct sockaddr_in sin;

		memcpy(&sin, n->ai_addr, sizeof(sin));
		*a = (struct resolve_addr){.v6 = false};
		memcpy(a->a, &sin.sin_addr, 4);
		out->n++;
	} else if (n->ai_family == AF_INET6 && n->ai_addrlen >= (ares_socklen_t)sizeof(struct sockaddr_in6)) {
		struct sockaddr_in6 sin6;

		memcpy(&sin6, n->ai_addr, sizeof(sin6));
		*a = (struct resolve_addr){.v6 = true};
		memcpy(a->a, &sin6.sin6_addr, 16);
		out->n++;
	}
}

static void on_answer(void *arg, int status, int timeouts, struct ares_addrinfo *ai)
{
	struct question q = *(struct question *)arg;
	struct resolve_result out = {.n = 0};

	(void)timeouts;
	free(arg);
	for (const struct ares_addrinfo_node *n = ai != NULL ? ai->nodes : NULL; n != NULL; n = n->ai_next)
		add_addr(&out, n);
	for (const struct ares_addrinfo_cname *c = ai != NULL ? ai->cnames : NULL; c != NULL; c = c->next) {
		size_t n = c->name != NULL ? strlen(c->name) : 0;

		if (out.cnames_n >= RESOLVE_CNAMES_MAX || n == 0 || n >= sizeof(out.cname[0]))
			continue;
		memcpy(out.cname[out.cnames_n++], c->name, n + 1);
	}
	switch (status) {
	case ARES_SUCCESS:
		out.err = out.n > 0 ? 0 : ENOENT;
		break;
	case ARES_ENODATA:
	case ARES_ENOTFOUND:
		out.err = ENOENT;
		break;
	case ARES_ETIMEOUT:
	case ARES_ECONNREFUSED:
		out.err = ETIMEDOUT;
		break;
	case ARES_ECANCELLED:
	case ARES_EDESTRUCTION:
		out.err = ECANCELED;
		break;
	default:
		out.err = EIO;
	}
	if (out.err != 0)
		out.n = 0;
	if (ai != NULL)
		ares_freeaddrinfo(ai);
	q.fn(q.arg, &out);
}

void resolver_ask(struct resolver *r, const char *name, resolve_fn fn, void *arg)
{
	const struct ares_addrinfo_hints h = {.ai_flags = ARES_AI_NOSORT, .ai_family = AF_UNSPEC,
					      .ai_socktype = SOCK_STREAM};
	struct question *q = malloc(sizeof(*q));

	if (q == NULL) {
		struct resolve_result none = {.err = EIO};

		fn(arg, &none);
		return;
	}
	*q = (struct question){.fn = fn, .arg = arg};
	ares_getaddrinfo(r->ch, name, NULL, &h, on_answer, q);
}

int resolver_wait(struct resolver *r)
{
	struct timeval tv, *t = ares_timeout(r->ch, NULL, &tv);

	return t == NULL ? -1 : (int)(t->tv_sec * 1000 + t->tv_usec / 1000 + 1);
}

void resolver_tick(struct resolver *r) { ares_process_fd(r->ch, ARES_SOCKET_BAD, ARES_SOCKET_BAD); }

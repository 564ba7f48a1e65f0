/* What comes is checked by wire/spawnd.h; a malformed message ends the connection. */
#include "daemon/spawner.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

struct spawner_wait {
	struct spawner_wait *next;
	uint32_t seq;
	spawner_done_fn *done;
	void *owner;
};

static void lose(struct spawner *s)
{
	loop_drop(&s->src);
	while (s->first != NULL) {
		struct spawner_wait *w = s->first;

		s->first = w->next;
		if (w->done != NULL)
			w->done(w->owner, NULL, NULL);
		free(w);
	}
	s->lost(s->owner);
}

static void answer(struct spawner *s, const struct spawnd_tell *t, const char *text)
{
	for (struct spawner_wait **p = &s->first; *p != NULL; p = &(*p)->next) {
		struct spawner_wait *w = *p;

		if (w->seq != t->seq)
			continue;
		*p = w->next;
		if (w->done != NULL)
			w->done(w->owner, t, text);
		free(w);
		return;
	}
}

static void ready(struct source *src, uint32_t events)
{
	struct spawner *s = (struct spawner *)src;
	char p[sizeof(struct spawnd_tell) + SPAWND_END_MAX + 1];

	(void)events;
	while (s->src.fd >= 0) {
		ssize_t n = recv(s->src.fd, p, sizeof(p), MSG_DONTWAIT);
		struct spawnd_tell t;
		const char *text;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0 || spawnd_tell_check(p, (size_t)n, &t, &text, NULL) < 0) {
			lose(s);
			return;
		}
		if (t.kind == SPAWND_ENDED)
			s->ended(s->owner, &t, text);
		else if (t.kind == SPAWND_ENTRY)
			s->entry(s->owner, &t);
		else
			answer(s, &t, text);
	}
}

int spawner_take(struct spawner *s, int fd)
{
	s->src = (struct source){.ready = ready, .fd = fd};
	return loop_watch(s->loop, &s->src);
}

int spawner_connect(struct spawner *s)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = -1;

	if (s->path == NULL)
		return -ENOTCONN;
	if (strlen(s->path) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	memcpy(addr.sun_path, s->path, strlen(s->path) + 1);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0)
		return -errno;
	return spawner_take(s, steal_fd(&fd));
}

void spawner_close(struct spawner *s)
{
	loop_drop(&s->src);
	while (s->first != NULL) {
		struct spawner_wait *w = s->first;

		s->first = w->next;
		free(w);
	}
}

int spawner_ask(struct spawner *s, const struct spawnd_ask *ask, const char *text, size_t text_n,
		spawner_done_fn *done, void *owner)
{
	struct spawnd_ask a = *ask;
	struct iovec v[2] = {{.iov_base = &a, .iov_len = sizeof(a)}};
	struct msghdr m = {.msg_iov = v, .msg_iovlen = text_n > 0 ? 2 : 1};
	struct spawner_wait *w;

	if (s->src.fd < 0)
		return -ENOTCONN;
	w = calloc(1, sizeof(*w));
	if (w == NULL)
		return -ENOMEM;
	a.seq = ++s->seq;
	a.text_n = (uint32_t)text_n;
	if (text_n > 0) {
		memcpy(&v[1].iov_base, &text, sizeof(text)); /* sendmsg only reads it */
		v[1].iov_len = text_n;
	}
	if (sendmsg(s->src.fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		int r = -errno;

		free(w);
		return r;
	}
	*w = (struct spawner_wait){.next = s->first, .seq = a.seq, .done = done, .owner = owner};
	s->first = w;
	return 0;
}

#include "sys/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

uint64_t loop_clock_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

int loop_open(struct loop *l)
{
	*l = (struct loop){.epoll_fd = epoll_create1(EPOLL_CLOEXEC), .now_ms = loop_clock_ms()};
	return l->epoll_fd < 0 ? -errno : 0;
}

void loop_close(struct loop *l)
{
	if (l->epoll_fd >= 0)
		(void)close(l->epoll_fd);
	l->epoll_fd = -1;
}

int loop_watch(struct loop *l, struct source *s)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.ptr = s}};

	return epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, s->fd, &ev) < 0 ? -errno : 0;
}

void loop_unwatch(struct loop *l, const struct source *s)
{
	(void)epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, s->fd, NULL);
}

void loop_drop(struct source *s)
{
	if (s->fd >= 0)
		(void)close(s->fd); /* the only copy, so epoll forgets it too */
	s->fd = -1;
}

void loop_free_later(struct loop *l, void *p)
{
	memcpy(p, &l->garbage, sizeof(l->garbage));
	l->garbage = p;
}

void loop_turn(struct loop *l, int wait_ms)
{
	struct epoll_event ev[128];
	int n = epoll_wait(l->epoll_fd, ev, 128, l->again ? 0 : wait_ms);

	l->now_ms = loop_clock_ms();
	l->again = false;
	for (int i = 0; i < n; i++) {
		struct source *s = (struct source *)ev[i].data.ptr;

		if (s->fd >= 0) /* not closed by an event before */
			s->ready(s, ev[i].events);
	}
	while (l->garbage != NULL) {
		void *p = l->garbage;

		memcpy(&l->garbage, p, sizeof(l->garbage));
		free(p);
	}
}

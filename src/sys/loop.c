#include "sys/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

uint64_t loop_clock_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

uint64_t loop_clock_ms(void) { return loop_clock_us() / 1000; }

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

static int control(const struct loop *l, int op, struct source *s, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data = {.ptr = s}};

	return epoll_ctl(l->epoll_fd, op, s->fd, &ev) < 0 ? -errno : 0;
}

int loop_watch_for(struct loop *l, struct source *s, uint32_t events) { return control(l, EPOLL_CTL_ADD, s, events); }
int loop_change(struct loop *l, struct source *s, uint32_t events) { return control(l, EPOLL_CTL_MOD, s, events); }

int loop_watch(struct loop *l, struct source *s)
{
	return loop_watch_for(l, s, EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDHUP | EPOLLET);
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

static void *pop(void **list)
{
	void *p = *list;

	if (p != NULL)
		memcpy(list, p, sizeof(*list));
	return p;
}

static void push(void **list, void *p)
{
	memcpy(p, list, sizeof(*list));
	*list = p;
}

void loop_free_later(struct loop *l, void *p)
{
	push(&l->garbage, p);
}

void *loop_spare(struct spares *s, size_t size)
{
	void *p = pop(&s->kept);

	if (p == NULL)
		return calloc(1, size);
	s->n--;
	return memset(p, 0, size);
}

void loop_spare_later(struct loop *l, struct spares *s, void *p)
{
	if (s->dying == NULL) {
		s->next = l->dirty;
		l->dirty = s;
	}
	push(&s->dying, p);
}

static void bury(struct spares *s)
{
	void *p;

	while ((p = pop(&s->dying)) != NULL) {
		if (s->n < s->max) {
			push(&s->kept, p);
			s->n++;
		} else {
			free(p);
		}
	}
}

void loop_turn(struct loop *l, int wait_ms)
{
	struct epoll_event ev[128];
	int n = epoll_wait(l->epoll_fd, ev, 128, l->again ? 0 : wait_ms);

	l->now_ms = loop_clock_ms();
	l->again = false;
	l->idle = n <= 0;
	for (int i = 0; i < n; i++) {
		struct source *s = (struct source *)ev[i].data.ptr;

		if (s->fd >= 0) /* not closed by an event before */
			s->ready(s, ev[i].events);
	}
	for (struct spares *s = l->dirty; s != NULL; s = s->next)
		bury(s);
	l->dirty = NULL;
	while (l->garbage != NULL)
		free(pop(&l->garbage));
}

#include "spawnd/priv.h"

#include "base/cleanup.h"
#include "base/num.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* The loop. It never waits for a start, a sandbox or an asker: each is a descriptor. */

enum { LOCK_TRIES = 40, LOCK_WAIT_MS = 50, STARTS_PER_CPU = 4, STARTS_MIN = 4, STARTS_MAX = 64 };

static struct server *server_of(struct source *src, size_t off) { return (struct server *)(void *)((char *)src - off); }

static void on_listen(struct source *src, uint32_t events)
{
	struct server *s = server_of(src, offsetof(struct server, listen));
	int fd;

	(void)events;
	/* cppcheck-suppress nullPointer ; nobody wants the address */
	while ((fd = accept4(src->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
		if (conn_open(s, fd, false) < 0)
			return; /* it was closed; there is no more room for others either */
}

static void on_signal(struct source *src, uint32_t events)
{
	struct server *s = server_of(src, offsetof(struct server, signals));
	struct signalfd_siginfo si;

	(void)events;
	while (read(src->fd, &si, sizeof(si)) == (ssize_t)sizeof(si))
		s->stop = true;
}

int spawnd_lock(int box_fd, int *ret_fd, struct err *e)
{
	static const struct timespec wait = {.tv_nsec = LOCK_WAIT_MS * 1000000L};
	_cleanup_close_ int fd = openat(box_fd, ".lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return err_set(e, ERR_DENIED, errno, "the folder of sandboxes: %s", strerror(errno));
	for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
		if (errno != EWOULDBLOCK || i == LOCK_TRIES)
			return err_set(e, ERR_CONFLICT, EBUSY, "another brig-spawn has this folder of sandboxes");
		(void)nanosleep(&wait, NULL);
	}
	*ret_fd = steal_fd(&fd);
	return 0;
}

static uint32_t starts_at_once(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN) * STARTS_PER_CPU;

	return (uint32_t)MIN(MAX(n, STARTS_MIN), STARTS_MAX);
}

static int begin(struct server *s, struct err *e)
{
	sigset_t set;
	int r = loop_open(&s->loop);

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	s->signals = (struct source){.ready = on_signal, .fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)};
	s->listen = (struct source){.ready = on_listen, .fd = s->a->listen_fd};
	s->starting_max = starts_at_once();
	if (r == 0)
		r = s->signals.fd < 0 ? -errno : loop_watch(&s->loop, &s->signals);
	if (r == 0 && s->a->listen_fd >= 0)
		r = loop_watch(&s->loop, &s->listen);
	if (r < 0)
		return err_set(e, ERR_INTERNAL, -r, "brig-spawn: %s", strerror(-r));
	r = find_boxes(s, e);
	if (r == 0 && s->a->conn_fd >= 0 && (r = conn_open(s, s->a->conn_fd, true)) < 0)
		r = err_set(e, ERR_INTERNAL, -r, "brig-spawn: %s", strerror(-r));
	s->sweep_ms = s->loop.now_ms; /* what died while nobody looked */
	s->sweeps = SWEEPS;
	return r;
}

/* A brig-spawn that is somebody's own takes its sandboxes with it. */
static void end_all(struct server *s)
{
	struct box *next;

	for (struct box *b = s->boxes; b != NULL; b = next) {
		next = b->next;
		if (b->state != BOX_OVER)
			box_kill(b);
	}
	while (s->alive > 0) {
		loop_turn(&s->loop, box_wait_ms(s));
		box_turn(s);
	}
}

static void release(struct server *s)
{
	while (s->boxes != NULL)
		box_drop(s->boxes);
	conn_close_all(s);
	loop_drop(&s->signals);
	loop_turn(&s->loop, 0); /* frees what was dropped */
	loop_close(&s->loop);
}

int spawnd_main(const struct spawnd_args *a, struct err *e)
{
	struct server s = {.a = a, .loop = {.epoll_fd = -1}};
	int r = begin(&s, e);

	while (r == 0 && !s.stop) {
		loop_turn(&s.loop, box_wait_ms(&s));
		box_turn(&s);
	}
	if (r == 0 && a->conn_fd >= 0)
		end_all(&s);
	release(&s);
	return r;
}

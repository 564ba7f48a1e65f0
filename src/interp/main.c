/*
 * The loop of brig-interp: commands down, output and events up, until either side is gone. Nothing
 * is read from the kernel while the keeper does not take what was read before, so a program that
 * prints too much waits, as at any pipe; commands are read all the same, so it can be interrupted.
 */
#include "base/cleanup.h"
#include "interp/interp.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

enum {
	DRAIN_MAX =
	    1024 * 1024, /* of output taken before one event, bytes: more than a pipe holds */
	EARLY_MAX = 4096,
};

struct interp {
	const struct interp_kernel *k;
	struct interp_child c;
	struct buf in;	  /* from the keeper */
	struct buf down;  /* to the kernel */
	struct buf lines; /* of the kernel, the last one incomplete */
	struct buf up;	  /* to the keeper */
	struct interp_text text[2];
	uint64_t executions;
	bool ready; /* it said so; what it prints before is shown only if it dies before */
	struct buf early;
};

static const char *const channel[2] = {"stdout", "stderr"};

static int say(struct interp *p, const char *type, const char *text)
{
	struct interp_text t = {.part_n = 0};

	return interp_text(&t, type, text, strlen(text), &p->up);
}

/* What a kernel says on its way up, as far as there is room. */
static void early_output(struct interp *p, const uint8_t *piece, size_t n)
{
	size_t room = buf_room(&p->early);

	if (buf_put(&p->early, piece, n < room ? n : room) < 0)
		p->early.len = 0;
}

/* One piece of output. Its size, 0 = nothing there. */
static ssize_t take_output(struct interp *p, int i)
{
	uint8_t piece[INTERP_TEXT_MAX];
	ssize_t n = read(p->c.out[i], piece, sizeof(piece));

	if (n > 0 && !p->ready)
		early_output(p, piece, (size_t)n);
	else if (n > 0 && interp_text(&p->text[i], channel[i], piece, (size_t)n, &p->up) < 0)
		return -ENOMEM;
	return n < 0 ? 0 : n;
}

/* What was printed before this moment. */
static int drain(struct interp *p)
{
	for (int i = 0; i < 2; i++) {
		int waiting = 0;
		ssize_t n = 0;

		if (ioctl(p->c.out[i], FIONREAD, &waiting) < 0)
			waiting = 0;
		for (waiting = waiting > DRAIN_MAX ? DRAIN_MAX : waiting; waiting > 0;
		     waiting -= (int)n)
			if ((n = take_output(p, i)) <= 0)
				break;
		if (n < 0 || interp_text_end(&p->text[i], channel[i], &p->up) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int take_events(struct interp *p)
{
	static const char ready[] = "{\"type\":\"ready\"}\n";
	uint8_t *w = buf_reserve(&p->lines, 64 * 1024), *end;
	ssize_t n = w == NULL ? -1 : read(p->c.event, w, 64 * 1024);

	if (w == NULL)
		return -ENOBUFS;
	if (n <= 0)
		return n < 0 && errno == EAGAIN ? 0 : -EPIPE;
	buf_commit(&p->lines, (size_t)n);
	while (p->lines.len > 0 &&
	       (end = memchr(buf_head(&p->lines), '\n', p->lines.len)) != NULL) {
		size_t len = (size_t)(end - buf_head(&p->lines)) + 1;

		if (drain(p) < 0 || buf_put(&p->up, buf_head(&p->lines), len) < 0)
			return -ENOBUFS;
		if (len == sizeof(ready) - 1 && memcmp(buf_head(&p->lines), ready, len) == 0)
			p->ready = true;
		buf_consume(&p->lines, len);
	}
	return 0;
}

static int take_commands(struct interp *p)
{
	uint8_t *w = buf_reserve(&p->in, 64 * 1024), *end;
	ssize_t n = w == NULL ? 0 : read(0, w, 64 * 1024);
	bool execute;
	int r;

	if (n <= 0)
		return -EPIPE; /* the keeper is gone */
	buf_commit(&p->in, (size_t)n);
	while (p->in.len > 0 && (end = memchr(buf_head(&p->in), '\n', p->in.len)) != NULL) {
		size_t len = (size_t)(end - buf_head(&p->in));

		r = interp_command(p->k, buf_head(&p->in), len, &p->down, &execute);
		if (r < 0)
			return r;
		if (r == 1)
			(void)kill(-p->c.pid, SIGINT);
		if (execute) {
			char count[80];
			int m = snprintf(
			    count, sizeof(count),
			    "{\"type\":\"number_of_executions\",\"execution_count\":%llu}\n",
			    (unsigned long long)++p->executions);

			if (buf_put(&p->up, count, (size_t)m) < 0)
				return -ENOBUFS;
		}
		buf_consume(&p->in, len + 1);
	}
	return 0;
}

/* Write what is there. 0, -EPIPE. */
static int give(int fd, struct buf *b)
{
	ssize_t n = b->len == 0 ? 0 : write(fd, buf_head(b), b->len);

	if (n < 0)
		return errno == EAGAIN ? 0 : -EPIPE;
	buf_consume(b, (size_t)n);
	return 0;
}

/* The kernel is gone: say how, after all it has written. */
static void died(struct interp *p)
{
	char text[EARLY_MAX + 160];
	int status = 0, n;

	for (int i = 0; i < 16 && take_events(p) == 0; i++) /* bounded: a child may go on writing */
		;
	(void)drain(p);
	(void)waitpid(p->c.pid, &status, 0);
	if (WIFSIGNALED(status))
		n = snprintf(text, sizeof(text), "the %s process was killed by signal %d (%s)",
			     p->k->word, WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		n = snprintf(text, sizeof(text), "the %s process has ended with status %d",
			     p->k->word, WEXITSTATUS(status));
	if (!p->ready && p->early.len > 0)
		(void)snprintf(text + n, sizeof(text) - (size_t)n, ": %.*s", (int)p->early.len,
			       (const char *)buf_head(&p->early));
	(void)say(p, "died", text);
}

/* 0: the kernel has died. -EPIPE: nobody is there to be told anything. */
static int run(struct interp *p)
{
	enum { KEEPER_IN, KEEPER_OUT, DOWN, GONE, EVENTS, OUT, ERR, FDS };

	for (;;) {
		bool full = p->up.len > 0; /* then the kernel waits */
		struct pollfd f[FDS] = {
		    [KEEPER_IN] = {.fd = 0, .events = POLLIN},
		    [KEEPER_OUT] = {.fd = full ? 1 : -1, .events = POLLOUT},
		    [DOWN] = {.fd = p->down.len > 0 ? p->c.in : -1, .events = POLLOUT},
		    [GONE] = {.fd = full ? -1 : p->c.pidfd, .events = POLLIN},
		    [EVENTS] = {.fd = full ? -1 : p->c.event, .events = POLLIN},
		    [OUT] = {.fd = full ? -1 : p->c.out[0], .events = POLLIN},
		    [ERR] = {.fd = full ? -1 : p->c.out[1], .events = POLLIN},
		};
		int r = 0;

		if (poll(f, FDS, -1) < 0)
			return -errno;
		if (f[KEEPER_IN].revents != 0)
			r = take_commands(p);
		if (r == 0 && f[KEEPER_OUT].revents != 0)
			r = give(1, &p->up);
		if (r == 0 && f[DOWN].revents != 0 && give(p->c.in, &p->down) < 0)
			p->down.len = 0; /* it is gone, which is seen below */
		if (r < 0)
			return r;
		if (f[OUT].revents != 0 || f[ERR].revents != 0)
			r = f[OUT].revents != 0 && take_output(p, 0) < 0   ? -ENOMEM
			    : f[ERR].revents != 0 && take_output(p, 1) < 0 ? -ENOMEM
									   : 0;
		if (r == 0 && f[EVENTS].revents != 0 && take_events(p) < 0)
			(void)kill(-p->c.pid,
				   SIGKILL); /* it closed its events, or a line was too long */
		if (r < 0)
			return r;
		if (f[GONE].revents != 0) {
			died(p);
			return 0;
		}
		if (!full && (r = give(1, &p->up)) < 0)
			return r;
	}
}

/* The last words, however long the keeper takes for them. */
static void flush(struct interp *p)
{
	(void)fcntl(1, F_SETFL, 0);
	while (p->up.len > 0 && give(1, &p->up) == 0)
		;
}

int interp_main(int argc, char **argv)
{
	struct interp p = {.k = argc == 2 ? interp_kernel(argv[1]) : NULL};
	char text[200];
	int r;

	buf_init(&p.in, INTERP_COMMAND_MAX + 128 * 1024);
	buf_init(&p.down, 8 * (size_t)INTERP_COMMAND_MAX);
	buf_init(&p.lines, INTERP_EVENT_MAX + 128 * 1024);
	buf_init(&p.early, EARLY_MAX);
	buf_init(&p.up, 8 * (size_t)INTERP_EVENT_MAX);
	if (p.k == NULL)
		return 2;
	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	(void)fcntl(1, F_SETFL, O_NONBLOCK);
	r = interp_start(p.k, &p.c);
	if (r < 0) {
		if (r == -ENOENT)
			(void)snprintf(text, sizeof(text),
				       "%s is not in the image; Debian package %s has it",
				       p.k->program, p.k->package);
		else
			(void)snprintf(text, sizeof(text), "cannot start %s: %s", p.k->program,
				       strerror(-r));
		(void)say(&p, "failed", text);
		flush(&p);
		return 1;
	}
	if (p.k->style == STYLE_SHELL &&
	    buf_put(&p.down, p.k->source, (size_t)(p.k->source_end - p.k->source)) < 0)
		return 1;
	r = run(&p);
	if (r == 0)
		flush(&p);
	(void)kill(-p.c.pid, SIGKILL);
	return r == 0 ? 0 : 1;
}

/*
 * The stop-watch of `brig bench`: one command per order, started with posix_spawn, which does not copy our memory, so that
 * every contender is started by the same code and nothing (no setpriv, no shell) stands between the clock and the
 * contender. A sample runs from just before the spawn until waitpid has returned and, where the output is drained, its
 * end was read.
 *
 * A command that takes longer than ALARM_S is killed (its process group) and counts as failed.
 */
#include "cli/bench_priv.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ALARM_S = 60 };

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Process group the alarm ends; a signal handler can be told in no other way. */
static volatile sig_atomic_t alarm_group;

static void on_alarm(int sig)
{
	(void)sig;
	if (alarm_group > 1)
		(void)kill(-alarm_group, SIGKILL);
}

struct started {
	pid_t pid;
	int out_fd;  /* read end, -1 = none */
	int file_fd; /* the output file, -1 = none */
};

static void started_close(struct started *s)
{
	if (s->out_fd >= 0)
		(void)close(s->out_fd);
	if (s->file_fd >= 0)
		(void)close(s->file_fd);
	s->out_fd = s->file_fd = -1;
}

int bench_fault(struct bench_answer *a, const char *fmt, ...)
{
	va_list ap;

	a->ok = false;
	va_start(ap, fmt);
	(void)vsnprintf(a->text, sizeof(a->text), fmt, ap);
	va_end(ap);
	return -1;
}

/* Where the output of this sample goes. *ret_far is what the command gets; the caller closes it. */
static int open_sink(const struct bench_site *site, enum bench_place place, enum bench_sink sink,
		     struct started *s, int *ret_far)
{
	int p[2];
	char path[256];

	switch (sink) {
	case SINK_NULL:
		*ret_far = open("/dev/null", O_WRONLY | O_CLOEXEC);
		return *ret_far < 0 ? -errno : 0;
	case SINK_PIPE:
	case SINK_HOLD:
		if (pipe2(p, O_CLOEXEC))
			return -errno;
		s->out_fd = p[0];
		*ret_far = p[1];
		return 0;
	case SINK_FILE:
		(void)snprintf(path, sizeof(path), "%s/out/%d", site->dir, (int)place);
		s->file_fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (s->file_fd < 0)
			return -errno;
		*ret_far = fcntl(s->file_fd, F_DUPFD_CLOEXEC, 0);
		return *ret_far < 0 ? -errno : 0;
	}
	return -EINVAL;
}

/* posix_spawn with the three standard descriptors set. *ret_t0 is read just before. */
static int spawn_words(char *const *argv, char *const *env, int out_fd, int err_fd, pid_t *ret_pid,
		       uint64_t *ret_t0)
{
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t at;
	sigset_t none, dfl;
	int r;

	sigemptyset(&none);
	sigfillset(&dfl);
	posix_spawn_file_actions_init(&fa);
	posix_spawnattr_init(&at);
	posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&fa, out_fd, 1);
	posix_spawn_file_actions_adddup2(&fa, err_fd, 2);
	posix_spawnattr_setflags(&at, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
					  POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&at, &none);
	posix_spawnattr_setsigdefault(&at, &dfl);
	*ret_t0 = now_ns();
	r = posix_spawn(ret_pid, argv[0], &fa, &at, argv, env);
	posix_spawnattr_destroy(&at);
	posix_spawn_file_actions_destroy(&fa);
	return -r;
}

/* The words of posix_spawn's argv are not written to; its type says otherwise for old reasons. */
static char *const *as_argv(const char *const *v)
{
	union {
		const char *const *c;
		char *const *m;
	} u = {.c = v};

	return u.m;
}

/* What every command gets: a path and a home. Without newuidmap in reach crun writes its one-id map
 * itself, as the others do. */
struct environment {
	char home[256];
	const char *v[3];
};

static char *const *environment(struct environment *e, const struct bench_site *site,
				enum bench_place p)
{
	(void)snprintf(e->home, sizeof(e->home), "HOME=%s/home-%s", site->dir,
		       place_is_user(p) ? "user" : "root");
	e->v[0] = p == PLACE_USER_V2 ? "PATH=/nonexistent" : "PATH=/usr/bin:/bin:/usr/sbin:/sbin";
	e->v[1] = e->home;
	e->v[2] = NULL;
	return as_argv(e->v);
}

static int start(const struct bench_site *site, const struct bench_order *o, uint32_t n, int err_fd,
		 struct started *ret, uint64_t *ret_t0, struct bench_answer *a)
{
	enum bench_place place = bench_rows[o->row].place;
	_cleanup_close_ int far = -1;
	struct bench_words w;
	struct environment env = {.home = ""};
	int r;

	ret->pid = -1;
	ret->out_fd = ret->file_fd = -1;
	r = bench_words(site, o->row, o->work, n, false, &w);
	if (!r)
		r = open_sink(site, place, bench_works[o->work].sink, ret, &far);
	if (!r)
		r = spawn_words(as_argv(w.v), environment(&env, site, place), far, err_fd, &ret->pid,
				ret_t0);
	if (r) {
		started_close(ret);
		return bench_fault(a, "%s: %s", w.v[0] ? w.v[0] : "?", strerror(-r));
	}
	alarm_group = ret->pid;
	alarm(ALARM_S);
	return 0;
}

static uint64_t drain(int fd)
{
	static char buf[1 << 16];
	uint64_t sum = 0;

	for (;;) {
		ssize_t n = read(fd, buf, sizeof(buf));

		if (n > 0)
			sum += (uint64_t)n;
		else if (n == 0 || errno != EINTR)
			return sum;
	}
}

static uint64_t micros(const struct rusage *u)
{
	return (uint64_t)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1000000u +
	       (uint64_t)(u->ru_utime.tv_usec + u->ru_stime.tv_usec);
}

/* Wait for one command; 0 when it ended with code 0. */
static int reap(pid_t pid, struct bench_answer *a, int err_fd)
{
	struct rusage u;
	int st;
	char line[160];
	ssize_t n;

	while (wait4(pid, &st, 0, &u) < 0) {
		if (errno != EINTR)
			return bench_fault(a, "wait: %s", strerror(errno));
	}
	a->cpu_us += micros(&u);
	if (WIFEXITED(st) && WEXITSTATUS(st) == 0)
		return 0;
	n = pread(err_fd, line, sizeof(line) - 1, 0);
	line[n > 0 ? n : 0] = 0;
	line[strcspn(line, "\n")] = 0;
	if (WIFSIGNALED(st))
		return bench_fault(a, "signal %d: %s", WTERMSIG(st), line);
	return bench_fault(a, "exit %d: %s", WEXITSTATUS(st), line);
}

static void do_sample(const struct bench_site *site, const struct bench_order *o, int err_fd,
		      struct bench_answer *a)
{
	uint64_t want = bench_works[o->work].bytes, got = want, t0 = 0;
	struct started s;
	struct stat st;
	int r;

	if (start(site, o, o->n, err_fd, &s, &t0, a))
		return;
	if (s.out_fd >= 0)
		got = drain(s.out_fd);
	r = reap(s.pid, a, err_fd);
	a->wall_ns = now_ns() - t0;
	alarm(0);
	if (s.file_fd >= 0)
		got = fstat(s.file_fd, &st) ? 0 : (uint64_t)st.st_size;
	started_close(&s);
	if (r)
		return;
	if (got != want)
		(void)bench_fault(a, "%llu bytes arrived, not %llu", (unsigned long long)got,
			  (unsigned long long)want);
	else
		a->ok = true;
}

static void do_burst(const struct bench_site *site, const struct bench_order *o, int err_fd,
		     struct bench_answer *a)
{
	pid_t pid[BENCH_BURST_MAX];
	uint64_t t0 = now_ns(), unused;
	uint32_t n = 0;

	for (; n < o->count && n < BENCH_BURST_MAX; n++) {
		struct started s;

		if (start(site, o, o->n + n, err_fd, &s, &unused, a))
			break;
		started_close(&s);
		pid[n] = s.pid;
	}
	a->failed = o->count - n;
	for (uint32_t i = 0; i < n; i++)
		a->failed += reap(pid[i], a, err_fd) != 0;
	a->wall_ns = now_ns() - t0;
	alarm(0);
	a->ok = true; /* the failures are counted, not hidden */
}

/* Start and leave running; the command says one line when it is up. */
static pid_t do_hold(const struct bench_site *site, const struct bench_order *o, int err_fd,
		     struct bench_answer *a)
{
	struct started s;
	uint64_t t0;
	char c;

	if (start(site, o, o->n, err_fd, &s, &t0, a))
		return -1;
	if (read(s.out_fd, &c, 1) == 1) {
		a->ok = true;
		a->pid = s.pid;
	} else {
		(void)reap(s.pid, a, err_fd);
		if (!a->text[0])
			(void)bench_fault(a, "it ended at once");
		s.pid = -1;
	}
	alarm(0);
	started_close(&s);
	return s.pid;
}

static void do_version(const struct bench_site *site, const struct bench_order *o, int err_fd,
		       struct bench_answer *a)
{
	const char *prog = site->program[o->row];
	const char *v[] = {prog[0] == '@' ? site->brig : prog, NULL, NULL};
	struct environment env = {.home = {0}};
	uint64_t t0;
	pid_t pid;
	int p[2];
	ssize_t n;

	v[1] = prog[0] == '@' ? "version" : "--version";
	if (pipe2(p, O_CLOEXEC))
		return;
	if (spawn_words(as_argv(v), environment(&env, site, PLACE_ROOT), p[1], err_fd, &pid, &t0) == 0) {
		(void)close(p[1]);
		n = read(p[0], a->text, sizeof(a->text) - 1);
		a->text[n > 0 ? n : 0] = 0;
		a->text[strcspn(a->text, "\n")] = 0;
		a->ok = n > 0;
		(void)close(p[0]);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	} else {
		(void)close(p[0]);
		(void)close(p[1]);
	}
}

/* Standard error of the commands: a file, so that a talkative one never blocks. */
static int open_errors(const struct bench_site *site, enum bench_place place)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/out/err%d", site->dir, (int)place);
	return open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
}

int bench_serve(int fd, const struct bench_site *site, enum bench_place place)
{
	const struct sigaction sa = {.sa_handler = on_alarm};
	int err_fd = open_errors(site, place);
	struct bench_order o;
	pid_t held = -1;

	if (sigaction(SIGALRM, &sa, NULL))
		return -errno;
	while (recv(fd, &o, sizeof(o), 0) == (ssize_t)sizeof(o)) {
		struct bench_answer a = {0};

		if (ftruncate(err_fd, 0))
			break;
		switch (o.kind) {
		case KIND_SAMPLE:
			do_sample(site, &o, err_fd, &a);
			break;
		case KIND_BURST:
			do_burst(site, &o, err_fd, &a);
			break;
		case KIND_HOLD:
			held = do_hold(site, &o, err_fd, &a);
			break;
		case KIND_RELEASE: /* our side has killed the sleeper; the rest follows */
			if (held > 0) {
				alarm_group = held;
				alarm(ALARM_S);
				(void)reap(held, &a, err_fd);
				alarm(0);
			}
			held = -1;
			a.ok = true;
			break;
		case KIND_VERSION:
			do_version(site, &o, err_fd, &a);
			break;
		}
		if (send(fd, &a, sizeof(a), MSG_NOSIGNAL) != (ssize_t)sizeof(a))
			break;
	}
	return 0;
}

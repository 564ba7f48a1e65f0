#include "guest/sweep.h"

#include "base/cleanup.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/*
 * The adversary is a program that forks as fast as it can, leaves its session, and lets its parents
 * die. Ancestry cannot be escaped: an orphan goes to its nearest living subreaper, the exec's
 * guard, or to PID 1 when the guard was killed too (then it is an unknown child of PID 1). A round stops
 * every process found until a look finds no new one running, then kills them all; a stopped process does
 * not fork. Rounds are repeated by the main loop, so other streams are served in between.
 *
 * A look is a list of names, read one after another. Of a chain of forks in which each parent ends, one always is in the list;
 * when it has gone, or is a zombie, before it is read, its child may be in no list. Such a look says nothing of what is left.
 *
 * Where PID 1 has no descriptor or memory left to look with, the sweep is not over: it goes on when there is.
 *
 * /proc is mounted by the tier and read here only; the process name inside a stat line is chosen by
 * hostile code and skipped by its last ')'.
 */

enum { PROCS_STEP = 256, PROCS_MAX = 65536, LOOKS_MAX = 12, WALK_MAX = 4096 };

struct list {
	struct sweep_proc *v;
	size_t n, cap;
	bool gone; /* one went before it was read */
};

bool sweep_parse_stat(const char *text, size_t n, struct sweep_proc *ret)
{
	const char *end = memrchr(text, ')', n);
	long ppid = 0;
	size_t i;

	if (end == NULL || (size_t)(text + n - end) < 6 || end[1] != ' ' || end[3] != ' ')
		return false;
	for (i = (size_t)(end - text) + 4; i < n && isdigit((unsigned char)text[i]) && ppid < (1 << 24); i++)
		ppid = ppid * 10 + (text[i] - '0');
	if (i >= n || text[i] != ' ')
		return false;
	ret->state = end[2];
	ret->ppid = (pid_t)ppid;
	return true;
}

static bool append(struct list *l, const struct sweep_proc *p)
{
	if (l->n == l->cap) {
		struct sweep_proc *v;

		if (l->cap >= PROCS_MAX)
			return false;
		v = reallocarray(l->v, l->cap + PROCS_STEP, sizeof(*v));
		if (v == NULL)
			return false;
		l->v = v;
		l->cap += PROCS_STEP;
	}
	l->v[l->n++] = *p;
	return true;
}

/* False when there may be such a process, and nothing is known of it. */
static bool read_process(int proc, const char *name, struct list *l)
{
	struct sweep_proc p = {.pid = (pid_t)strtol(name, NULL, 10)};
	_cleanup_close_ int fd = -1;
	char path[32], text[512];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%.16s/stat", name);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text));
	if (n < 0) {
		l->gone = true;
		return errno == ENOENT || errno == ESRCH;
	}
	return sweep_parse_stat(text, (size_t)n, &p) && append(l, &p);
}

static int by_pid(const void *a, const void *b)
{
	const struct sweep_proc *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* False when not all could be seen: nothing can be said of what is left. */
static bool look(struct list *l)
{
	DIR *proc = opendir("/proc");
	struct dirent *e;
	bool all = true;

	l->n = 0;
	l->gone = false;
	if (proc == NULL)
		return false;
	while ((errno = 0, e = readdir(proc)) != NULL) {
		if (isdigit((unsigned char)e->d_name[0]))
			all = read_process(dirfd(proc), e->d_name, l) && all;
	}
	all = all && errno == 0;
	(void)closedir(proc);
	if (l->n > 1)
		qsort(l->v, l->n, sizeof(*l->v), by_pid);
	return all;
}

static bool is_known(const struct sweep *s, pid_t pid)
{
	for (size_t i = 0; i < s->known_n; i++) {
		if (s->known[i] == pid)
			return true;
	}
	return false;
}

/* Does the line of parents from p lead to a root of the sweep? */
static bool descends(const struct sweep *s, const struct sweep_proc *v, size_t n, const struct sweep_proc *p)
{
	for (int steps = 0; p != NULL && p->pid > 1 && steps < WALK_MAX; steps++) {
		struct sweep_proc key = {.pid = p->ppid};

		if (p->pid == s->tree || (s->guard != 0 && p->ppid == s->guard))
			return true;
		if (p->ppid == 1)
			return s->orphans && !is_known(s, p->pid);
		p = bsearch(&key, v, n, sizeof(*v), by_pid);
		if (p != NULL && p->marked)
			return true;
	}
	return false;
}

size_t sweep_mark(const struct sweep *s, struct sweep_proc *v, size_t n)
{
	size_t alive = 0;

	for (size_t i = 0; i < n; i++) {
		v[i].marked = descends(s, v, n, &v[i]);
		if (v[i].marked && v[i].state != 'Z' && v[i].state != 'X')
			alive++;
	}
	return alive;
}

static bool is_running(const struct sweep_proc *p)
{
	return p->marked && strchr("TtZX", p->state) == NULL;
}

enum sweep_found sweep_round(const struct sweep *s)
{
	struct list l = {0};
	size_t alive = 0;
	bool all = true, quiet = true;

	for (int looks = 0; looks < LOOKS_MAX; looks++) {
		size_t running = 0;

		all = look(&l);
		alive = sweep_mark(s, l.v, l.n);
		quiet = l.gone;
		for (size_t i = 0; i < l.n; i++) {
			quiet = quiet || (l.v[i].marked && strchr("ZX", l.v[i].state) != NULL);
			if (is_running(&l.v[i])) {
				(void)kill(l.v[i].pid, SIGSTOP);
				running++;
			}
		}
		if (running == 0)
			break;
	}
	for (size_t i = 0; i < l.n; i++) {
		if (l.v[i].marked)
			(void)kill(l.v[i].pid, SIGKILL);
	}
	free(l.v);
	if (!all || alive > 0)
		return SWEEP_LEFT;
	return quiet ? SWEEP_QUIET : SWEEP_OVER;
}

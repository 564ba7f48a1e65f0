#include "guest/child_priv.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "guest/priv.h"
#include "guest/probe.h"
#include "guest/program.h"
#include "guest/report.h"
#include "guest/worker.h"
#include "sys/call.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>

/*
 * Theory of operation. A child is a plain copy of PID 1, or borrows the starter's memory (guest/starter.h), or that of
 * a PID 1 that is still alone: one that shares memory and has taken the user's id could be stopped by the user, and
 * what it borrowed from with it. It goes through fixed steps, each of which must succeed before the next:
 *
 *   standard descriptors, every other descriptor closed -> user looked up -> ids, groups ->
 *   capabilities gone -> folder, environment -> execve(2), or the worker's code
 *
 * The copy of PID 1's memory is not readable from outside: the agent is not dumpable, its copies are
 * not either, and a program gets a fresh image. /etc/passwd is read here, not in PID 1, so that
 * whatever lies at that path can do harm to this request only.
 */

enum { TTY_FD = STATUS_FD + 1, SOCK_FD, OUTSIDE_FD, FDS_MAX, DEFAULT_UMASK = 022, EXIT_NOT_STARTED = 127 };

noreturn void child_fail(int err, const char *what, const char *name)
{
	report_error(STATUS_FD, err, what, name);
	_exit(EXIT_NOT_STARTED);
}

void child_descriptors(int *keep, int n)
{
	/* sources are above all targets: PID 1 keeps 0 to 2 busy, and what it opens may be the next */
	for (int i = 0; i < n; i++) {
		if (keep[i] >= 3 && keep[i] < n) {
			keep[i] = fcntl(keep[i], F_DUPFD_CLOEXEC, n);
			if (keep[i] < 0)
				_exit(EXIT_NOT_STARTED);
		}
	}
	for (int i = 0; i < n; i++) {
		if (keep[i] < 0)
			(void)close(i);
		else if (dup3(keep[i], i, i < 3 ? 0 : O_CLOEXEC) < 0)
			_exit(EXIT_NOT_STARTED);
	}
	(void)sys_close_range((unsigned)n, ~0u, 0);
}

/* Afterwards: 0, 1, 2 are the program's; of those above only what is in use, all closed by execve(2). */
static void set_descriptors(const struct child *c)
{
	int keep[FDS_MAX] = {c->std[0] >= 0 ? c->std[0] : c->null_fd,
			     c->std[1] >= 0 ? c->std[1] : c->null_fd,
			     c->std[2] >= 0 ? c->std[2] : c->null_fd,
			     c->status,
			     c->tty,
			     c->measure ? c->sock_fd : -1,
			     c->measure ? c->outside_fd : -1};

	child_descriptors(keep, c->measure ? FDS_MAX : c->tty >= 0 ? TTY_FD + 1 : STATUS_FD + 1);
}

static void take_terminal(const struct user *u)
{
	int fd = ioctl(TTY_FD, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		child_fail(errno, "opening the terminal", NULL);
	(void)close(TTY_FD);
	if (fchown(fd, u->uid, (gid_t)-1) < 0 && errno != EPERM && errno != EINVAL)
		child_fail(errno, "handing over the terminal", NULL);
	if (ioctl(fd, TIOCSCTTY, 0) < 0)
		child_fail(errno, "taking the terminal", NULL);
	for (int i = 0; i < 3; i++) {
		if (dup2(fd, i) < 0)
			child_fail(errno, "taking the terminal", NULL);
	}
	(void)close(fd);
}

/* So that a program may open /dev/stdout again. Pipes of the host may not be ours to give. */
static void give_std(const struct user *u)
{
	struct stat st;

	for (int i = 0; i < 3; i++) {
		if (fstat(i, &st) == 0 && S_ISFIFO(st.st_mode) && st.st_uid != u->uid)
			(void)!fchown(i, u->uid, u->gid);
	}
}

void child_find_user(const struct child *c, struct user *u)
{
	const struct ask_str *s = &c->ask->user;
	const char *spec = s->p != NULL ? (const char *)s->p : c->rules->user;
	size_t n = s->p != NULL ? s->n : strlen(spec);
	char name[257];
	int r = user_load(spec, n, u);

	if (r == 0)
		return;
	n = MIN(n, sizeof(name) - 1);
	memcpy(name, spec, n);
	name[n] = '\0';
	/* not ENOENT: to the caller of an exec that means the program is missing */
	child_fail(EINVAL, r == -ENOENT ? "no user of this name in /etc/passwd" : "not a user", name);
}

void child_become(const struct child *c, const struct user *u)
{
	int r = priv_become(u);

	if (r < 0) {
		char id[64];

		(void)snprintf(id, sizeof(id), "%u:%u", u->uid, u->gid);
		child_fail(-r, "this sandbox has no such id (one made without newuidmap has its caller's only)", id);
	}
	/* Where there is one id it was not changed, but the one for the file system may have been (guest/birth.c). */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	r = priv_drop(c->rules->root_keeps_files && u->uid == 0);
	if (r < 0)
		child_fail(-r, "dropping capabilities", NULL);
}

void child_reset(const struct child *c)
{
	sigset_t none;

	(void)setsid();
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	(void)setrlimit(RLIMIT_NOFILE, &c->rules->nofile);
	(void)umask(ask_has(c->ask, F_UMASK) ? (mode_t)c->ask->umask : DEFAULT_UMASK);
}

/* The kernel takes at most PATH_MAX bytes at once; a longer path is walked. 0 or -errno. */
static int change_folder(char *path)
{
	_cleanup_close_ int at = -1;
	char *rest = path;

	if (strlen(path) < PATH_MAX)
		return chdir(path) < 0 ? -errno : 0;
	at = open(path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (at < 0)
		return -errno;
	while (*rest != '\0') {
		char *part = rest + strspn(rest, "/");
		size_t n = strcspn(part, "/");
		int next;

		rest = part + n + (part[n] != '\0');
		part[n] = '\0';
		if (n == 0)
			continue;
		next = openat(at, part, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (next < 0)
			return -errno;
		(void)close(at);
		at = next;
	}
	return fchdir(at) < 0 ? -errno : 0;
}

static void enter_folder(const struct ask *q)
{
	static const char start[] = "/workspace";
	struct ask_str s = q->cwd.p != NULL ? q->cwd : (struct ask_str){(const uint8_t *)start, strlen(start)};
	char usual[256]; /* memory taken and given back is a page made and dropped, on the way to each command */
	char *path = s.n < sizeof(usual) ? usual : malloc(s.n + 1);
	int r;

	if (path == NULL || ask_copy(&s, path, s.n + 1) < 0)
		child_fail(ENOMEM, "working folder", NULL);
	r = change_folder(path);
	if (r < 0) {
		memcpy(path, s.p, s.n);
		child_fail(-r, "working folder", path);
	}
	if (path != usual)
		free(path);
}

noreturn void child_run(char **argv, char **env)
{
	int err = program_run(argv, env);

	if (err == ENOENT && strchr(argv[0], '/') != NULL && access(argv[0], F_OK) == 0)
		child_fail(err, "the interpreter of the program is missing", argv[0]);
	if (err == E2BIG)
		child_fail(err, "arguments and environment are too large for", argv[0]);
	child_fail(err, "running", argv[0]);
}

/* Nothing is run where the walls are not as they should be. */
static void measure(void)
{
	int r = probe_report(SOCK_FD, OUTSIDE_FD);

	if (r < 0)
		child_fail(-r, r == -ECANCELED ? "the walls are not as asked for" : "measuring the walls", NULL);
}

/* Memory of a child that borrows it: what its lender has to free, and whether that is all there is. */
static struct {
	char **argv, **env;
	bool whole;
} lent;

bool child_gave_back(void)
{
	if (!lent.whole)
		return false;
	free(lent.argv);
	free(lent.env);
	lent.argv = lent.env = NULL;
	lent.whole = false;
	return true;
}

noreturn void child_exec(const struct child *c)
{
	struct user u;
	char **argv, **env;

	lent.whole = false; /* the starter is a copy of PID 1, which has lent its memory too */
	set_descriptors(c);
	if (c->tells_pid && !report_send(STATUS_FD, &(struct report){.type = REPORT_PID, .pid = getpid()}))
		_exit(EXIT_NOT_STARTED); /* nobody waits for it any more */
	child_reset(c);
	argv = lent.argv = ask_args(c->ask, F_ARG, 0);
	if (argv == NULL)
		child_fail(ENOMEM, "arguments", NULL);
	child_find_user(c, &u);
	if (c->tty >= 0)
		take_terminal(&u);
	else
		give_std(&u);
	child_become(c, &u);
	env = lent.env = program_env(c->ask, &u, NULL);
	if (env == NULL)
		child_fail(ENOMEM, "environment", NULL);
	enter_folder(c->ask);
	if (c->measure)
		measure();
	lent.whole = true;
	child_run(argv, env);
}

noreturn void child_work(const struct child *c)
{
	struct user u;

	set_descriptors(c);
	child_reset(c);
	child_find_user(c, &u);
	child_become(c, &u);
	_exit(worker_run(c->ask, &u, STATUS_FD));
}

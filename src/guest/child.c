#include "guest/child.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "guest/priv.h"
#include "guest/probe.h"
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
#include <sys/syscall.h>
#include <sys/wait.h>

/*
 * Theory of operation. A child is a plain copy of PID 1 (not vfork: a child that shares memory with
 * PID 1 and has taken the user's id could be stopped by the user, and PID 1 with it). It goes
 * through fixed steps, each of which must succeed before the next:
 *
 *   standard descriptors, every other descriptor closed -> user looked up -> ids, groups ->
 *   capabilities gone -> folder, environment -> execve(2), or the worker's code
 *
 * The copy of PID 1's memory is not readable from outside: the agent is not dumpable, its copies are
 * not either, and a program gets a fresh image. /etc/passwd is read here, not in PID 1, so that
 * whatever lies at that path can do harm to this request only.
 */

static const char default_path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

enum { STATUS_FD = 3, TTY_FD, SOCK_FD, OUTSIDE_FD, FDS_MAX, DEFAULT_UMASK = 022, EXIT_NOT_STARTED = 127 };

static noreturn void fail(int err, const char *what, const char *name)
{
	report_error(STATUS_FD, err, what, name);
	_exit(EXIT_NOT_STARTED);
}

/* Afterwards: 0, 1, 2 are the program's; of those above only what is in use, all closed by execve(2). */
static void set_descriptors(const struct child *c)
{
	int keep[FDS_MAX] = {c->std[0] >= 0 ? c->std[0] : c->null_fd,
			     c->std[1] >= 0 ? c->std[1] : c->null_fd,
			     c->std[2] >= 0 ? c->std[2] : c->null_fd,
			     c->status,
			     c->tty,
			     c->report != NULL ? c->sock_fd : -1,
			     c->report != NULL ? c->outside_fd : -1};
	int n = c->report != NULL ? FDS_MAX : c->tty >= 0 ? TTY_FD + 1 : STATUS_FD + 1;

	/* sources are above all targets: PID 1 keeps 0 to 2 busy, and what it opens may be the next */
	for (int i = 0; i < n; i++) {
		if (keep[i] >= 3 && keep[i] < FDS_MAX) {
			keep[i] = fcntl(keep[i], F_DUPFD_CLOEXEC, FDS_MAX);
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

static void take_terminal(const struct user *u)
{
	int fd = ioctl(TTY_FD, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		fail(errno, "opening the terminal", NULL);
	(void)close(TTY_FD);
	if (fchown(fd, u->uid, (gid_t)-1) < 0 && errno != EPERM && errno != EINVAL)
		fail(errno, "handing over the terminal", NULL);
	if (ioctl(fd, TIOCSCTTY, 0) < 0)
		fail(errno, "taking the terminal", NULL);
	for (int i = 0; i < 3; i++) {
		if (dup2(fd, i) < 0)
			fail(errno, "taking the terminal", NULL);
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

static void find_user(const struct child *c, struct user *u)
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
	fail(EINVAL, r == -ENOENT ? "no user of this name in /etc/passwd" : "not a user", name);
}

static void become(const struct child *c, const struct user *u)
{
	int r = priv_become(u);

	if (r < 0) {
		char id[64];

		(void)snprintf(id, sizeof(id), "%u:%u", u->uid, u->gid);
		fail(-r, "this sandbox has no such id (one made without newuidmap has its caller's only)", id);
	}
	r = priv_drop(c->rules->root_keeps_files && u->uid == 0);
	if (r < 0)
		fail(-r, "dropping capabilities", NULL);
	/* the change of ids made it what fs.suid_dumpable says (proc(5)) */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

static void reset_process(const struct child *c)
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
	char *path = malloc(s.n + 1);
	int r;

	if (path == NULL || ask_copy(&s, path, s.n + 1) < 0)
		fail(ENOMEM, "working folder", NULL);
	r = change_folder(path);
	if (r < 0) {
		memcpy(path, s.p, s.n);
		fail(-r, "working folder", path);
	}
	free(path);
}

static bool has_env(char *const *env, const char *name)
{
	size_t n = strlen(name);

	for (; *env != NULL; env++) {
		if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
			return true;
	}
	return false;
}

/* The caller's variables, and what every program expects where they lack it. */
static char **make_env(const struct ask *q, const struct user *u)
{
	enum { SPARE = 6 };
	static char made[4][16 + USER_STR_MAX];
	static char path[sizeof(default_path)], term[] = "TERM=xterm";
	const struct {
		const char *name, *value;
	} all[] = {{"HOME", u->home}, {"USER", u->name}, {"LOGNAME", u->name}, {"SHELL", u->shell}};
	char **env = ask_args(q, F_ENV, SPARE);
	uint32_t n = q->envc;

	if (env == NULL)
		fail(ENOMEM, "environment", NULL);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		size_t k = strlen(all[i].name), m = strlen(all[i].value);

		if (m == 0 || has_env(env, all[i].name) || k + 1 + m >= sizeof(made[i]))
			continue;
		memcpy(made[i], all[i].name, k);
		made[i][k] = '=';
		memcpy(made[i] + k + 1, all[i].value, m + 1);
		env[n++] = made[i];
		env[n] = NULL;
	}
	if (!has_env(env, "PATH")) {
		memcpy(path, default_path, sizeof(path));
		env[n++] = path;
		env[n] = NULL;
	}
	if ((q->flags & REQ_TTY) && !has_env(env, "TERM")) {
		env[n++] = term;
		env[n] = NULL;
	}
	return env;
}

static const char *path_of(char *const *env)
{
	for (; *env != NULL; env++) {
		if (strncmp(*env, "PATH=", 5) == 0)
			return *env + 5;
	}
	return "";
}

/* Returns only on failure: the errno to report. */
static int exec_in_path(char **argv, char **env)
{
	const char *name = argv[0], *dir = path_of(env);
	size_t len = strlen(name);
	char file[PATH_MAX];
	int err = ENOENT;

	if (len == 0)
		return ENOENT;
	if (strchr(name, '/') != NULL) {
		(void)execve(name, argv, env);
		return errno;
	}
	for (;;) {
		size_t n = strcspn(dir, ":");

		if (n + 1 + len < sizeof(file)) {
			char *end = mempcpy(file, dir, n);

			if (n > 0)
				*end++ = '/';
			memcpy(end, name, len + 1);
			(void)execve(file, argv, env);
			if (errno == EACCES)
				err = EACCES;
			else if (errno != ENOENT && errno != ENOTDIR)
				return errno;
		}
		if (dir[n] == '\0')
			return err;
		dir += n + 1;
	}
}

static noreturn void run_program(char **argv, char **env)
{
	int err = exec_in_path(argv, env);

	if (err == ENOENT && strchr(argv[0], '/') != NULL && access(argv[0], F_OK) == 0)
		fail(err, "the interpreter of the program is missing", argv[0]);
	if (err == E2BIG)
		fail(err, "arguments and environment are too large for", argv[0]);
	fail(err, "running", argv[0]);
}

/* Tell how the walls look from here, and wait for the word to go on. */
static void measure(const struct child *c)
{
	int r = probe_command_half(c->report, SOCK_FD, OUTSIDE_FD);

	if (r < 0)
		fail(-r, "measuring the walls", NULL);
}

noreturn void child_exec(const struct child *c)
{
	struct user u;
	char **argv, **env;

	set_descriptors(c);
	reset_process(c);
	argv = ask_args(c->ask, F_ARG, 0);
	if (argv == NULL)
		fail(ENOMEM, "arguments", NULL);
	find_user(c, &u);
	if (c->tty >= 0)
		take_terminal(&u);
	else
		give_std(&u);
	become(c, &u);
	env = make_env(c->ask, &u);
	enter_folder(c->ask);
	if (c->report != NULL)
		measure(c);
	run_program(argv, env);
}

noreturn void child_work(const struct child *c)
{
	struct user u;

	set_descriptors(c);
	reset_process(c);
	find_user(c, &u);
	become(c, &u);
	_exit(worker_run(c->ask, &u, STATUS_FD));
}

/*
 * The guard: subreaper of one exec. Holds the agent's user id but no capability, reads nothing,
 * and lives until its last descendant has ended. A program of the same uid may kill it; PID 1 takes
 * that as the end of the exec.
 */
static noreturn void be_guard(const struct child *c, pid_t cmd)
{
	sigset_t all;

	sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	if (dup3(c->status, STATUS_FD, O_CLOEXEC) < 0 && c->status != STATUS_FD)
		_exit(1);
	(void)sys_close_range(STATUS_FD + 1, ~0u, 0);
	if (priv_drop(false) < 0)
		_exit(1);
	report_send(STATUS_FD, &(struct report){.type = REPORT_PID, .pid = cmd});
	for (;;) {
		struct rusage ru;
		int st;
		pid_t pid = wait4(-1, &st, 0, &ru);

		if (pid < 0 && errno == EINTR)
			continue;
		if (pid < 0)
			_exit(0);
		if (pid != cmd)
			continue;
		report_send(STATUS_FD,
			    &(struct report){
				.type = REPORT_EXIT,
				.wait_status = st,
				.utime_us = (uint64_t)ru.ru_utime.tv_sec * 1000000u + (uint64_t)ru.ru_utime.tv_usec,
				.stime_us = (uint64_t)ru.ru_stime.tv_sec * 1000000u + (uint64_t)ru.ru_stime.tv_usec,
				.maxrss_kib = (uint64_t)ru.ru_maxrss,
			    });
	}
}

noreturn void child_guard(const struct child *c)
{
	pid_t pid;

	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0) {
		report_error(c->status, errno, "guarding the processes", NULL);
		_exit(1);
	}
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid < 0) {
		report_error(c->status, errno, "starting a process", NULL);
		_exit(1);
	}
	if (pid == 0)
		child_exec(c);
	be_guard(c, pid);
}

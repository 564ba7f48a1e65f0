#include "sudo/sudo.h"
#include "sudo/talk.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* From the command line to the command's end, which becomes ours. Everything of our own is one line and exit 1, as sudo's. */

enum { FAILED = 1 };

static const char help[] =
    "usage: sudo [-EHiknSs] [-u USER] [--preserve-env=NAME,...] [NAME=VALUE ...] COMMAND [ARGUMENT ...]\n"
    "       sudo -l | -v | -k | -K | -h | -V\n"
    "Runs a command as root of this sandbox, or as USER. Root here has no capabilities, unless the sandbox was\n"
    "started with --root-caps files: it is an owner of files and nothing more.\n"
    "  -u USER  as USER, a name or #UID       -E  keep the environment\n"
    "  -i       a login shell of USER's       -H  HOME is USER's also with -E\n"
    "  -s       a shell                       -l  say what may be run\n"
    "No password is ever asked for: -n, -S, -p, -k, -K and -v are taken and change nothing.\n";

static int say(const char *what)
{
	(void)fprintf(stderr, "sudo: %s\n", what);
	return FAILED;
}

/* A descriptor that is closed here would be one of ours, there. */
static bool fill_std(void)
{
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
			return false;
	return true;
}

/* /etc/passwd, whole; NULL = none. */
static char *read_passwd(size_t *ret_n)
{
	_cleanup_close_ int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	_cleanup_free_ char *p = malloc(USER_FILE_MAX);
	struct stat st;
	size_t n = 0;
	ssize_t got = 1;

	if (fd < 0 || p == NULL || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return NULL;
	while (got > 0 && n < USER_FILE_MAX) {
		got = read(fd, p + n, USER_FILE_MAX - n);
		n += got > 0 ? (size_t)got : 0;
	}
	*ret_n = n;
	return steal_ptr(&p);
}

struct people {
	struct user target, caller;
	bool has_target;
};

static void find_people(const struct sudo_args *a, struct people *ret)
{
	size_t n = 0;
	_cleanup_free_ char *passwd = read_passwd(&n);
	char uid[16];

	(void)snprintf(uid, sizeof(uid), "%u", geteuid());
	ret->has_target = user_find(a->user, strlen(a->user), passwd, n, &ret->target) == 0;
	if (user_find(uid, strlen(uid), passwd, n, &ret->caller) < 0) /* cannot be: a number needs no entry */
		(void)snprintf(ret->caller.shell, sizeof(ret->caller.shell), "/bin/sh");
}

static int open_folder(const struct sudo_args *a, const struct people *who)
{
	int fd = -1;

	if (a->mode == SUDO_LOGIN && who->has_target)
		fd = open(who->target.home, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd >= 0 ? fd : open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Where a program lies on the usual path: what SUDO_COMMAND says. */
static const char *find_command(const char *name, char found[PATH_MAX])
{
	static const char *const dirs[] = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"};

	if (name == NULL || strchr(name, '/') != NULL)
		return name != NULL ? name : "";
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		(void)snprintf(found, PATH_MAX, "%s/%s", dirs[i], name);
		if (access(found, X_OK) == 0)
			return found;
	}
	return name;
}

/* Like the command: its exit code, or by its signal, without a core dump of our own. */
static int end_as(const struct sudo_reply *r)
{
	static const struct rlimit none;
	sigset_t one;

	if (r->how == HOW_EXIT)
		return (int)r->code;
	(void)setrlimit(RLIMIT_CORE, &none);
	(void)sigaction((int)r->code, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	sigemptyset(&one);
	sigaddset(&one, (int)r->code);
	(void)sigprocmask(SIG_UNBLOCK, &one, NULL);
	(void)raise((int)r->code);
	return 128 + (int)r->code;
}

static int tell_error(const struct sudo_args *a, const struct sudo_reply *r)
{
	if (r->err == ENOENT && a->argv[0] != NULL && a->mode == SUDO_RUN && strncmp(r->text, "running ", 8) == 0)
		(void)fprintf(stderr, "sudo: %s: command not found\n", a->argv[0]);
	else if (r->err == EINVAL && strncmp(r->text, "no user ", 8) == 0)
		(void)fprintf(stderr, "sudo: unknown user %s\n", a->user);
	else
		(void)fprintf(stderr, "sudo: %s\n", r->text);
	return FAILED;
}

static int ask(const struct sudo_args *a, const struct buf *request, int cwd_fd)
{
	_cleanup_close_ int fd = talk_connect();
	struct sudo_reply r;
	int err;

	if (fd == -ECONNREFUSED || fd == -EPERM)
		return say("this sandbox has none: it is to be started with --sudo, or 'sudo: yes' in its profile");
	if (fd < 0)
		return say(fd == -EPROTO ? "whoever answers is not PID 1" : strerror(-fd));
	err = talk_ask(fd, request, cwd_fd);
	if (err < 0)
		return say(strerror(-err));
	if (talk_wait(fd, &r) < 0)
		return say("the sandbox gave no answer");
	if (r.how == HOW_ERROR)
		return tell_error(a, &r);
	if (a->mode == SUDO_LIST)
		(void)printf("You may run the following commands in this sandbox:\n    (ALL : ALL) NOPASSWD: ALL\n");
	return end_as(&r);
}

static int run(const struct sudo_args *a, char **env)
{
	static struct people who; /* a page and more */
	const char *shell = getenv("SHELL");
	mode_t mask = umask(0);
	_cleanup_close_ int cwd_fd = -1;
	char found[PATH_MAX];
	struct buf b;
	int r;

	(void)umask(mask);
	find_people(a, &who);
	cwd_fd = open_folder(a, &who);
	if (cwd_fd < 0)
		return say(strerror(errno));
	buf_init(&b, SUDO_REQUEST_MAX);
	r = sudo_request(a, env, mask, who.has_target ? &who.target : NULL,
			 shell != NULL && shell[0] != '\0' ? shell : who.caller.shell, find_command(a->argv[0], found), &b);
	r = r < 0 ? say(r == -E2BIG ? "arguments and environment are too large" : strerror(-r)) : ask(a, &b, cwd_fd);
	buf_done(&b);
	return r;
}

int sudo_main(int argc, char **argv, char **env)
{
	struct sudo_args a;
	char why[128];

	if (!fill_std())
		return FAILED;
	if (argc < 1 || sudo_args_parse((const char *const *)argv + 1, &a, why, sizeof(why)) < 0)
		return say(argc < 1 ? "no arguments" : why);
	switch (a.mode) {
	case SUDO_HELP: (void)fputs(help, stdout); return 0;
	case SUDO_VERSION_TEXT: (void)puts("sudo of brig " BRIG_VERSION); return 0;
	case SUDO_FORGET: return 0;
	case SUDO_RUN:
	case SUDO_LOGIN:
	case SUDO_SHELL:
	case SUDO_LIST:
	case SUDO_VALIDATE: break;
	}
	return run(&a, env);
}

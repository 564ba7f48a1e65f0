#include "spawnd/priv.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "keep/keep.h"
#include "spawn/door.h"
#include "spawn/program.h"
#include "spawn/runner.h"
#include "sys/fds.h"
#include "sys/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/*
 * A keeper from its fork to its service: in a process of its own, since a start waits for many things. It has
 * brig-spawn's privileges until the sandbox is up and its socket, its end file and the runner are there; then it locks
 * itself in, and only then reads what comes from inside.
 *
 * Whoever kills brig-spawn meanwhile harms nothing: with nobody to say READY to, it ends the sandbox again.
 */

struct start {
	const struct server *s;
	const struct spawnd_ask *ask;
	struct spec spec;
	struct runner *runner;
	struct door *door;
	int box_fd, lock_fd, listen_fd, end_fd, interp_fd;
};

void child_detach(const char *name, int *keep, size_t n)
{
	int null_fd;
	sigset_t set;

	(void)prctl(PR_SET_NAME, name, 0, 0, 0);
	(void)setsid();
	fds_keep_only(keep, n);
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd < 3 && null_fd >= 0; fd++)
		if (fd != null_fd)
			(void)dup2(null_fd, fd);
	if (null_fd > 2)
		(void)close(null_fd);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM); /* until somebody serves it; brig-spawn's own signals come by signalfd */
	(void)sigaddset(&set, SIGPIPE);
	(void)sigprocmask(SIG_SETMASK, &set, NULL);
}

bool outcome_send(int fd, int r, uint32_t weaker, const struct err *e)
{
	struct outcome o = {.ret = r < 0 ? r : 0, .weaker = weaker};

	if (r < 0) {
		o.fault = e->kind != ERR_NONE ? (uint32_t)e->kind : (uint32_t)ERR_INTERNAL;
		(void)snprintf(o.why, sizeof(o.why), "%s", e->msg);
	}
	return write(fd, &o, sizeof(o)) == (ssize_t)sizeof(o);
}

static int fail(int err, const char *what, struct err *e)
{
	return err_set(e, ERR_INTERNAL, err, "the sandbox's %s: %s", what, strerror(err));
}

static const struct config_template *template_of(const struct start *b)
{
	return config_template(b->s->a->config, b->ask->template); /* it was there when brig-spawn looked */
}

/* The file that says who keeps this sandbox, locked from the beginning. */
static int open_record(struct start *b, struct err *e)
{
	char name[BOX_FILE_MAX], text[512];
	int n;

	b->lock_fd = openat(b->box_fd, box_file(b->ask->id, ".box", name), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (b->lock_fd < 0 || flock(b->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return fail(errno, "record", e);
	n = snprintf(text, sizeof(text), "brig-box 1\npid=%d\ntime_ms=%llu\ntemplate=%s\ntenant=%s\n", (int)getpid(),
		     (unsigned long long)time(NULL) * 1000, template_of(b)->name, b->ask->tenant);
	return write(b->lock_fd, text, (size_t)n) == n ? 0 : fail(EIO, "record", e);
}

static int open_socket(struct start *b, struct err *e)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	uid_t client = b->s->a->client_uid;
	char name[BOX_FILE_MAX];
	mode_t old;
	int r;

	b->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (b->listen_fd < 0)
		return fail(errno, "socket", e);
	/* by descriptor, since a folder's name may be longer than an address */
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/%s", b->box_fd,
		       box_file(b->ask->id, ".sock", name));
	(void)unlinkat(b->box_fd, name, 0);
	old = umask(0177);
	r = bind(b->listen_fd, (const struct sockaddr *)&a, sizeof(a)) < 0 ? -errno : 0;
	(void)umask(old);
	if (r == 0 && client != geteuid() && fchownat(b->box_fd, name, client, (gid_t)-1, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (r == 0 && listen(b->listen_fd, 256) < 0)
		r = -errno;
	return r < 0 ? fail(-r, "socket", e) : 0;
}

static int open_end(struct start *b, struct err *e)
{
	char name[BOX_FILE_MAX];

	b->end_fd = openat(b->box_fd, box_file(b->ask->id, ".end", name),
			   O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	return b->end_fd < 0 ? fail(errno, "end file", e) : 0;
}

/* The code interpreter's program, read into the sandbox later, when no file can be opened any more. */
static int open_interp(struct start *b, struct err *e)
{
	_cleanup_close_ int found = -1;
	char path[4096];
	bool ours;
	int r = program_find("brig-interp", path, sizeof(path), &found, &ours, e);

	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", found);
	b->interp_fd = open(path, O_RDONLY | O_CLOEXEC);
	return b->interp_fd < 0 ? fail(errno, "code interpreter", e) : 0;
}

static int start_sandbox(struct start *b, const char *text, struct err *e)
{
	struct gate *gate;
	int r = spawnd_spec(template_of(b), b->ask, text, &b->spec, e);

	if (r == 0)
		r = runner_new(&b->spec, false, &b->runner, e);
	if (r == 0)
		r = runner_start(b->runner, e);
	if (r == 0)
		r = runner_hold(b->runner, e);
	gate = r == 0 ? runner_gate(b->runner) : NULL;
	if (gate != NULL)
		r = door_open(b->spec.id, gate, runner_inspect(b->runner), b->spec.egress, runner_take_rules_fd(b->runner),
			      &b->door, e);
	return r;
}

static int lock_in(struct err *e)
{
	char why[96] = "";
	int r = keeper_jail(why, sizeof(why));

	return r < 0 ? err_set(e, ERR_UNSUPPORTED, -r, "%s: %s", why, strerror(-r)) : 0;
}

static int ready(struct start *b, const char *text, struct err *e)
{
	int r = open_record(b, e);

	if (r == 0)
		r = start_sandbox(b, text, e);
	if (r == 0)
		r = open_socket(b, e);
	if (r == 0)
		r = open_end(b, e);
	if (r == 0 && template_of(b)->code)
		r = open_interp(b, e);
	if (r == 0 && write(b->lock_fd, "ready=1\n", 8) != 8)
		r = fail(EIO, "record", e);
	(void)close(steal_fd(&b->box_fd)); /* a way to the files of others */
	return r == 0 ? lock_in(e) : r;
}

int keeper_run(const struct server *s, const struct spawnd_ask *a, const char *text, int report_fd)
{
	struct start b = {.s = s, .ask = a, .lock_fd = -1, .listen_fd = -1, .end_fd = -1, .interp_fd = -1, .box_fd = s->a->box_fd};
	struct keep_args args;
	struct err e = ERR_INIT;
	bool told;
	int keep[] = {report_fd, b.box_fd}, r;

	child_detach("brig-keeper", keep, ARRAY_LEN(keep));
	r = ready(&b, text, &e);
	told = outcome_send(report_fd, r, r == 0 ? runner_weaker(b.runner) : 0, &e);
	if (r < 0 || !told) {
		runner_free(b.runner);
		return 1;
	}
	(void)close(report_fd);
	args = (struct keep_args){.runner = b.runner,
				  .spec = &b.spec,
				  .template = a->template,
				  .listen_fd = b.listen_fd,
				  .end_fd = b.end_fd,
				  .door = b.door,
				  .interp_fd = b.interp_fd,
				  .client_uid = s->a->client_uid};
	return keep_main(&args);
}

/*
 * The spawners of `brig bench`: small forked children that have each taken on one place (user, mount namespace) and then serve
 * orders (bench_sample.c). Orders and answers are fixed structs on a SEQPACKET socket between two halves of one program.
 */
#include "cli/bench_priv.h"

#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CGROUP2_MAGIC = 0x63677270 };

/* /sys/fs/cgroup becomes a plain v2 mount for this spawner's children. */
static int enter_v2(void)
{
	struct statfs fs;

	if (!statfs("/sys/fs/cgroup", &fs) && fs.f_type == CGROUP2_MAGIC)
		return 0;
	if (geteuid())
		return -EPERM;
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("cgroup2", "/sys/fs/cgroup", "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
		return -errno;
	return 0;
}

/* A host on which nobody offers cgroups. */
static int enter_bare(void)
{
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/sys/fs/cgroup", "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
		return -errno;
	return 0;
}

static int become_user(uid_t uid)
{
	gid_t gid = uid;

	if (geteuid())
		return 0;
	if (setgroups(0, NULL) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid))
		return -errno;
	return prctl(PR_SET_DUMPABLE, 1) ? -errno : 0;
}

static int enter_place(enum bench_place p, const struct bench_site *site)
{
	int r = 0;

	if (p == PLACE_ROOT_V2 || p == PLACE_USER_V2)
		r = enter_v2();
	if (p == PLACE_ROOT_BARE)
		r = enter_bare();
	if (!r && place_is_user(p))
		r = become_user(site->uid);
	if (!r && (prctl(PR_SET_PDEATHSIG, SIGKILL) || chdir("/")))
		r = -errno;
	return r;
}

static void start_one(struct bench_spawner *s, enum bench_place p, const struct bench_site *site)
{
	int fd[2], r;

	s->fd = -1;
	if (!place_is_user(p) && geteuid()) {
		(void)snprintf(s->why, sizeof(s->why), "needs root");
		return;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd)) {
		(void)snprintf(s->why, sizeof(s->why), "socketpair: %s", strerror(errno));
		return;
	}
	s->pid = fork();
	if (s->pid == 0) {
		r = enter_place(p, site);
		(void)close(fd[0]);
		if (send(fd[1], &r, sizeof(r), MSG_NOSIGNAL) == (ssize_t)sizeof(r) && !r)
			r = bench_serve(fd[1], site, p);
		_exit(r ? 1 : 0);
	}
	(void)close(fd[1]);
	if (s->pid < 0 || recv(fd[0], &r, sizeof(r), 0) != (ssize_t)sizeof(r))
		r = -EIO;
	if (r) {
		(void)snprintf(s->why, sizeof(s->why), "a cgroup v2 mount or user: %s", strerror(-r));
		(void)close(fd[0]);
		return;
	}
	s->fd = fd[0];
}

void bench_spawners_start(struct bench_spawner s[PLACE_COUNT], const struct bench_site *site)
{
	for (int p = 0; p < PLACE_COUNT; p++)
		start_one(&s[p], (enum bench_place)p, site);
}

void bench_spawners_stop(struct bench_spawner s[PLACE_COUNT])
{
	/* All ends first: a later spawner holds copies of the earlier ones' sockets. */
	for (int p = 0; p < PLACE_COUNT; p++) {
		if (s[p].fd >= 0)
			(void)close(s[p].fd);
		s[p].fd = -1;
	}
	for (int p = 0; p < PLACE_COUNT; p++) {
		if (s[p].pid > 0)
			(void)waitpid(s[p].pid, NULL, 0);
	}
}

void bench_ask(struct bench_spawner *s, const struct bench_order *o, struct bench_answer *a)
{
	memset(a, 0, sizeof(*a));
	if (s->fd < 0)
		(void)bench_fault(a, "%s", s->why);
	else if (send(s->fd, o, sizeof(*o), MSG_NOSIGNAL) != (ssize_t)sizeof(*o) ||
		 recv(s->fd, a, sizeof(*a), 0) != (ssize_t)sizeof(*a))
		(void)bench_fault(a, "the spawner went away");
}

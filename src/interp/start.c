/*
 * Starting a kernel: a child with a process group of its own, which an interrupt goes to, and five
 * descriptors. Its standard input is /dev/null (a shell's is its commands), so that code which
 * reads sees the end instead of eating commands.
 */
#include "base/cleanup.h"
#include "interp/interp.h"
#include "sys/call.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

enum { FD_COMMANDS = 3, FD_EVENTS = 4, FD_SOURCE = 5, FD_FREE = 10 };

static int pipe_high(int p[2])
{
	int q[2];

	if (pipe2(q, O_CLOEXEC) < 0)
		return -errno;
	for (int i = 0; i < 2; i++) {
		p[i] = fcntl(q[i], F_DUPFD_CLOEXEC, FD_FREE);
		(void)close(q[i]);
	}
	return p[0] < 0 || p[1] < 0 ? -EMFILE : 0;
}

static int source_fd(const struct interp_kernel *k, int *ret)
{
	size_t n = (size_t)(k->source_end - k->source);
	_cleanup_close_ int fd = memfd_create("kernel", MFD_CLOEXEC);

	if (fd < 0 || write(fd, k->source, n) != (ssize_t)n || lseek(fd, 0, SEEK_SET) != 0)
		return -EIO;
	*ret = fcntl(fd, F_DUPFD_CLOEXEC, FD_FREE);
	return *ret < 0 ? -errno : 0;
}

/* In the child. far: commands, events, stdout, stderr, source. */
static _Noreturn void become(const struct interp_kernel *k, const int far[5], int report)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), err;

	(void)setpgid(0, 0);
	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (k->style == STYLE_SHELL) {
		(void)setenv("PS1", "", 1);
		(void)setenv("PS2", "", 1);
	}
	if (dup2(k->style == STYLE_SHELL ? far[0] : null, 0) == 0 && dup2(far[2], 1) == 1 &&
	    dup2(far[3], 2) == 2 && dup2(far[1], FD_EVENTS) == FD_EVENTS &&
	    (k->style == STYLE_SHELL ||
	     (dup2(far[0], FD_COMMANDS) == FD_COMMANDS && dup2(far[4], FD_SOURCE) == FD_SOURCE)))
		/* NOLINTNEXTLINE(performance-no-int-to-ptr): execvp has no const */
		(void)execvp(k->program, (char *const *)(uintptr_t)k->argv);
	err = errno;
	(void)!write(report, &err, sizeof(err));
	_exit(127);
}

static void close_all(int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (fds[i] >= 0)
			(void)close(fds[i]);
}

int interp_start(const struct interp_kernel *k, struct interp_child *ret)
{
	/* pairs: commands, events, stdout, stderr, report of execve */
	int p[5][2] = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}}, err = 0, r = 0;
	_cleanup_close_ int source = -1;

	for (int i = 0; i < 5 && r == 0; i++)
		r = pipe_high(p[i]);
	if (r == 0)
		r = source_fd(k, &source);
	if (r < 0) {
		close_all(p[0], 10);
		return r;
	}
	ret->pid = fork();
	if (ret->pid == 0)
		become(k, (const int[5]){p[0][0], p[1][1], p[2][1], p[3][1], source}, p[4][1]);
	(void)setpgid(ret->pid, ret->pid); /* an interrupt may come before it has done so itself */
	close_all((int[5]){p[0][0], p[1][1], p[2][1], p[3][1], p[4][1]}, 5);
	ret->in = p[0][1];
	ret->event = p[1][0];
	ret->out[0] = p[2][0];
	ret->out[1] = p[3][0];
	ret->pidfd = ret->pid < 0 ? -EAGAIN : sys_pidfd_open(ret->pid);
	if (ret->pidfd < 0)
		r = ret->pidfd;
	else if (read(p[4][0], &err, sizeof(err)) == sizeof(err))
		r = -err;
	(void)close(p[4][0]);
	for (int i = 0; i < 4; i++)
		(void)fcntl(((int[]){ret->in, ret->event, ret->out[0], ret->out[1]})[i], F_SETFL,
			    O_NONBLOCK);
	return r;
}

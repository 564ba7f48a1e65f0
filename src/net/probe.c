#include "net/net.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Whether the kernel takes what net_setup asks for, found by asking: a child makes a user and a network
 * namespace of its own, as a sandbox gets them, sets it up, and tells what came of it through a pipe.
 */

struct answer {
	int err;
	char why[200];
};

static int lo_up(void)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};

	return fd < 0 || ioctl(fd, SIOCSIFFLAGS, &ifr) < 0 ? -errno : 0;
}

static _Noreturn void try(const struct net_plan *p, int fd)
{
	struct answer a = {.why = "network namespace"};
	struct net_socks s;

	a.err = unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0 ? -errno : lo_up();
	if (a.err == 0)
		a.err = net_setup(p, &s, a.why, sizeof(a.why));
	(void)file_write_all(fd, &a, sizeof(a));
	_exit(0);
}

int net_probe(char *why, size_t size)
{
	_cleanup_free_ struct net_plan *p = malloc(sizeof(*p));
	_cleanup_close_ int r_fd = -1, w_fd = -1;
	struct net_range r = {.first = {198, 18, 0, 0}, .last = {198, 19, 255, 255}};
	struct answer a = {.err = -EIO};
	int fds[2], ret;
	ssize_t n;
	pid_t pid;

	if (p == NULL || pipe2(fds, O_CLOEXEC) < 0)
		return -ENOMEM;
	r_fd = fds[0];
	w_fd = fds[1];
	ret = net_plan_gate(p, &r, 1, NULL);
	if (ret < 0)
		return ret;
	pid = fork();
	if (pid == 0)
		try(p, w_fd);
	if (pid < 0)
		return -errno;
	(void)close(steal_fd(&w_fd));
	do
		n = read(r_fd, &a, sizeof(a));
	while (n < 0 && errno == EINTR);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (n != (ssize_t)sizeof(a))
		return -EIO;
	a.why[sizeof(a.why) - 1] = '\0';
	if (size > 0) {
		size_t len = MIN(strlen(a.why), size - 1);

		memcpy(why, a.why, len);
		why[len] = '\0';
	}
	return a.err;
}

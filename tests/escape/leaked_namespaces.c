/*
 * Enters namespaces by descriptors the caller left open. The control is root of the namespaces it enters.
 *
 * group: namespaces
 * tries: setns into mount, network, IPC, host name and PID namespaces by leaked descriptors and by /proc/PID/ns
 * control: ns
 * leak: ns
 */
#include <sched.h>
#include <sys/ioctl.h>

#include "attack.h"

struct try {
	int fd, type;
};

static long enter(void *arg)
{
	const struct try *t = arg;

	return syscall(SYS_setns, t->fd, t->type);
}

static long by_fds(int type)
{
	long r = -1;

	for (int fd = 3; fd < 64 && r < 0; fd++)
		r = in_child(enter, &(struct try){fd, type});
	return r;
}

static long by_proc(const char *name)
{
	DIR *d = NULL;
	pid_t pid;
	long r = -1;

	while ((pid = next_process(&d))) {
		char path[64];
		int fd;

		(void)snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, name);
		fd = r < 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
		if (fd < 0)
			continue;
		r = in_child(enter, &(struct try){fd, 0});
		(void)close(fd);
	}
	return r;
}

int main(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	tried("mnt", by_fds(CLONE_NEWNS));
	tried("net", by_fds(CLONE_NEWNET));
	tried("ipc", by_fds(CLONE_NEWIPC));
	tried("uts", by_fds(CLONE_NEWUTS));
	tried("pid", by_fds(CLONE_NEWPID));
	tried("proc-mnt", by_proc("mnt"));
	tried("proc-net", by_proc("net"));
	return ended();
}

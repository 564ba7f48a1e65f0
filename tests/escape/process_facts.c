/*
 * Asks the kernel about a process outside by its number: its clock, its limits, where it belongs.
 *
 * group: processes
 * tries: read of a process outside its processor clock, limits, priorities, session and group, affinity and state
 * control: plain
 */
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include "attack.h"

static long clock_of(pid_t pid)
{
	struct timespec t;
	clockid_t id;

	errno = clock_getcpuclockid(pid, &id);
	return errno == 0 ? clock_gettime(id, &t) : -1;
}

static long file_of(pid_t pid, const char *name)
{
	char path[64], text[64];
	int fd;
	long n;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text));
	if (fd >= 0)
		(void)close(fd);
	return n > 0 ? 0 : -1;
}

static long priority_of(pid_t pid)
{
	int n;

	errno = 0;
	n = getpriority(PRIO_PROCESS, (id_t)pid);
	return n == -1 && errno ? -1 : 0;
}

int main(int argc, char **argv)
{
	pid_t pid = (pid_t)param_number(argv, "victim");
	struct sched_param s;
	struct rlimit64 l;
	struct timespec t;
	cpu_set_t cpus;
	void *head;
	size_t size;

	(void)argc;
	tried("clock", clock_of(pid));
	tried("limits", syscall(SYS_prlimit64, pid, RLIMIT_NOFILE, NULL, &l));
	tried("priority", priority_of(pid));
	tried("scheduling", sched_getparam(pid, &s));
	tried("interval", sched_rr_get_interval(pid, &t));
	tried("affinity", sched_getaffinity(pid, sizeof(cpus), &cpus));
	tried("io-priority", syscall(SYS_ioprio_get, 1, pid));
	tried("session", getsid(pid));
	tried("group", getpgid(pid));
	tried("robust-list", syscall(SYS_get_robust_list, pid, &head, &size));
	tried("stat", file_of(pid, "stat"));
	return ended();
}

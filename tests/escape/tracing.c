/*
 * Reads and changes other processes' memory: the victim's, PID 1's, and that of whatever else shows.
 *
 * group: processes
 * tries: read and write the memory of processes outside, of PID 1 and of the parent: ptrace, process_vm_*, /proc/PID/mem, pidfd_getfd
 * control: plain
 * shows: secret-read victim-changed
 */
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "attack.h"

static uintptr_t at; /* of the secret, in the victim */
static pid_t targets[64];
static int n;

static void add(pid_t pid)
{
	for (int i = 0; i < n; i++)
		if (targets[i] == pid)
			return;
	if (pid > 0 && pid != getpid() && n < 64)
		targets[n++] = pid;
}

/* PTRACE_ATTACH and SEIZE; what was attached is let go. */
static long attach(pid_t pid)
{
	long r = ptrace(PTRACE_SEIZE, pid, 0, 0);

	if (r < 0)
		r = ptrace(PTRACE_ATTACH, pid, 0, 0);
	return r;
}

static long seize_child(void *arg)
{
	return attach(*(pid_t *)arg);
}

/* Remote addresses are numbers of another process, never dereferenced here. */
static struct iovec remote(size_t len)
{
	struct iovec v = {.iov_len = len};

	memcpy(&v.iov_base, &at, sizeof(at));
	return v;
}

static long vm_read(pid_t pid, char *text, size_t len)
{
	struct iovec l = {.iov_base = text, .iov_len = len}, r = remote(len);

	return process_vm_readv(pid, &l, 1, &r, 1, 0);
}

static long vm_write(pid_t pid)
{
	char x[] = "X";
	struct iovec l = {.iov_base = x, .iov_len = 1}, r = remote(1);

	return process_vm_writev(pid, &l, 1, &r, 1, 0);
}

static long mem(pid_t pid, int flags)
{
	char path[64], text[64] = "X";
	int fd;
	long r;

	(void)snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0)
		return -1;
	/* Any address does against a process that is not the victim: opening it is the success. */
	r = flags == O_RDONLY ? pread(fd, text, 40, (off_t)at) : pwrite(fd, text, 1, (off_t)at);
	(void)close(fd);
	return r < 0 ? 0 : r;
}

static long take_fd(pid_t pid)
{
	long pidfd = syscall(SYS_pidfd_open, pid, 0), r;

	if (pidfd < 0)
		return -1;
	for (int fd = 0; fd < 8; fd++) {
		r = syscall(SYS_pidfd_getfd, pidfd, fd, 0);
		if (r >= 0)
			return r;
	}
	return -1;
}

int main(int argc, char **argv)
{
	static const char *const keys[] = {"attach", "vm-read", "vm-write", "mem-read", "mem-write", "pidfd_getfd"};
	long r[6] = {-1, -1, -1, -1, -1, -1};
	char text[65] = "";
	DIR *d = NULL;
	pid_t pid;

	(void)argc;
	at = (uintptr_t)param_number(argv, "secret");
	/* The victim alone where its number means something: another program of the user's must not be touched. */
	if (getppid() != 0 && kill((pid_t)param_number(argv, "victim"), 0) == 0) {
		add((pid_t)param_number(argv, "victim"));
	} else {
		add(1);
		add(getppid());
		while ((pid = next_process(&d)))
			add(pid);
	}
	for (int i = 0; i < n; i++) {
		pid = targets[i];
		if (r[0] < 0)
			r[0] = in_child(seize_child, &pid);
		if (r[1] < 0)
			r[1] = vm_read(pid, text, sizeof(text) - 1);
		if (r[3] < 0)
			r[3] = mem(pid, O_RDONLY);
		if (r[5] < 0)
			r[5] = take_fd(pid);
		if (r[2] < 0)
			r[2] = vm_write(pid);
		if (r[4] < 0)
			r[4] = mem(pid, O_RDWR);
	}
	errno = EPERM;
	for (int i = 0; i < 6; i++)
		if (r[i] >= 0)
			got(keys[i], i == 1 ? text : NULL);
		else
			refused(keys[i], errno);
	return ended();
}

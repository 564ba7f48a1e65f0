/*
 * Takes memory of every kind the kernel gives: what is not counted against the sandbox is missing on the host.
 *
 * group: exhaustion
 * tries: hold 120 MiB under a limit of 80: pages, shared and unnamed files, page tables, pipes, sockets, message queues
 * control: plain
 * shows: host-memory
 * run: --memory 80M --disk 16M
 * host: memory=104
 * once: yes
 * only: root
 */
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>

#include "attack.h"

#define MIB (1024L * 1024)
#define TAKE (120 * MIB)
#define PIPES (56 * MIB) /* of pipes: a user has 64 MiB of them (pipe(7)); the rest are pages */

static long pages(long n)
{
	char *p = mmap(NULL, (size_t)n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return -1;
	for (long i = 0; i < n; i += 4096)
		p[i] = 1;
	return 0;
}

static long anonymous(void *arg)
{
	(void)arg;
	return pages(TAKE);
}

static long mapped(int fd)
{
	char *p = fd < 0 || ftruncate(fd, TAKE) < 0 ? MAP_FAILED : mmap(NULL, TAKE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return -1;
	for (long i = 0; i < TAKE; i += 4096)
		p[i] = 1;
	return 0;
}

static long unnamed(void *arg)
{
	(void)arg;
	return mapped(memfd_create("escape", MFD_CLOEXEC));
}

static long shared(void *arg)
{
	int id = shmget(IPC_PRIVATE, TAKE, IPC_CREAT | 0600);
	char *p = shmat(id, NULL, 0);

	(void)arg;
	(void)shmctl(id, IPC_RMID, NULL);
	if ((intptr_t)p == -1)
		return -1;
	for (long i = 0; i < TAKE; i += 4096)
		p[i] = 1;
	return 0;
}

/* One page of zeros, which costs nothing, in each 2 MiB: only the tables that name it are new. */
static long tables(void *arg)
{
	long n = TAKE / 4096;
	volatile char *p = mmap(NULL, (size_t)n * 2 * MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	(void)arg;
	if (p == MAP_FAILED || madvise((void *)(uintptr_t)p, (size_t)n * 2 * MIB, MADV_NOHUGEPAGE) < 0)
		return -1;
	for (long i = 0; i < n; i++)
		(void)p[i * 2 * MIB];
	return 0;
}

static void all_descriptors(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
		r.rlim_cur = r.rlim_max < 65536 ? r.rlim_max : 65536;
		(void)setrlimit(RLIMIT_NOFILE, &r);
	}
}

/* Fills fd until it takes no more; the bytes. */
static long fill(int fd)
{
	static const char block[65536];
	long sum = 0, n;

	while ((n = write(fd, block, sizeof(block))) > 0)
		sum += n;
	return sum;
}

static long pipes(void *arg)
{
	long sum = 0;

	(void)arg;
	all_descriptors();
	while (sum < PIPES) {
		int p[2];

		if (pipe2(p, O_CLOEXEC | O_NONBLOCK) < 0)
			return -1;
		sum += fill(p[1]);
	}
	return pages(TAKE - PIPES);
}

static long sockets(void *arg)
{
	long sum = 0;

	(void)arg;
	all_descriptors();
	while (sum < TAKE) {
		int s[2];
		long n;

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, s) < 0)
			return -1;
		n = fill(s[0]) + fill(s[1]);
		if (n == 0)
			return -1;
		sum += n;
	}
	return 0;
}

static long queues(void *arg)
{
	static struct {
		long type;
		char text[8192];
	} m = {.type = 1};
	static int ids[16384];
	long sum = 0, r = 0;
	int n = 0;

	(void)arg;
	while (sum < TAKE / 2 && n < (int)(sizeof(ids) / sizeof(*ids))) {
		ids[n] = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
		if (ids[n] < 0) {
			r = -1;
			break;
		}
		while (msgsnd(ids[n], &m, sizeof(m.text), IPC_NOWAIT) == 0)
			sum += (long)sizeof(m.text);
		n++;
	}
	if (r == 0)
		r = pages(TAKE / 2);
	while (n > 0)
		(void)msgctl(ids[--n], IPC_RMID, NULL);
	return r;
}

/* In a child that the kernel takes first. */
static void hold(const char *key, long (*fn)(void *))
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

		if (fd >= 0)
			(void)!write(fd, "1000", 4);
		_exit(fn(NULL) < 0 ? 1 : 0);
	}
	(void)waitpid(pid, &status, 0);
	errno = WIFSIGNALED(status) ? EINTR : ENOMEM;
	tried(key, WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1);
}

int main(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	hold("pages", anonymous);
	hold("unnamed", unnamed);
	hold("shared", shared);
	hold("tables", tables);
	hold("pipes", pipes);
	hold("sockets", sockets);
	hold("queues", queues);
	return ended();
}

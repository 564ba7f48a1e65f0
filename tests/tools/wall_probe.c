/*
 * wall_probe: what the system call interface answers here.
 *
 * Runs inside a sandbox (static, copied in) or natively. Prints one line per probe, `name result`,
 * where result is 0 or a positive errno; a call that kills the process gives `signal N`. Arguments
 * are chosen so that a call which reaches the kernel fails without effect (bad descriptors, NULL
 * pointers): "blocked" and "reached" then differ, and nothing is changed where the probe runs as
 * root. Fed by nobody; the suite that reads it knows what each line must say.
 *
 *   wall_probe            the table
 *   wall_probe fds        the open descriptors, one a line
 *   wall_probe hog MIB    allocates and touches so much, prints "done"
 *   wall_probe fork N     forks N sleepers, prints how many could be made and the errno that stopped it
 *   wall_probe segv       dies of SIGSEGV by itself
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BAD_FD  ((long)-1)
#define BAD_PTR ((long)1)

struct probe {
	const char *name;
	long nr;
	long a[6];
};

static int pair[2];

static const struct probe calls[] = {
    {"io_uring_setup", 425, {1, BAD_PTR, 0, 0, 0, 0}},
    {"io_uring_enter", 426, {BAD_FD, 0, 0, 0, 0, 0}},
    {"io_uring_register", 427, {BAD_FD, 0, 0, 0, 0, 0}},
    {"bpf", 321, {0, BAD_PTR, 0, 0, 0, 0}},
    {"perf_event_open", 298, {BAD_PTR, 0, BAD_FD, BAD_FD, 0, 0}},
    {"keyctl", 250, {0, -3, 0, 0, 0, 0}},
    {"add_key", 248, {BAD_PTR, BAD_PTR, 0, 0, 0, 0}},
    {"request_key", 249, {BAD_PTR, BAD_PTR, 0, 0, 0, 0}},
    {"userfaultfd", 323, {-1, 0, 0, 0, 0, 0}},
    {"mount", 165, {BAD_PTR, BAD_PTR, BAD_PTR, 0, 0, 0}},
    {"umount2", 166, {BAD_PTR, 0, 0, 0, 0, 0}},
    {"pivot_root", 155, {BAD_PTR, BAD_PTR, 0, 0, 0, 0}},
    {"open_tree", 428, {BAD_FD, BAD_PTR, 1, 0, 0, 0}},
    {"move_mount", 429, {BAD_FD, BAD_PTR, BAD_FD, BAD_PTR, 0, 0}},
    {"fsopen", 430, {BAD_PTR, 0, 0, 0, 0, 0}},
    {"fsconfig", 431, {BAD_FD, 0, 0, 0, 0, 0}},
    {"fsmount", 432, {BAD_FD, 0, 0, 0, 0, 0}},
    {"mount_setattr", 442, {BAD_FD, BAD_PTR, 0, BAD_PTR, 32, 0}},
    {"unshare_user", 272, {CLONE_NEWUSER, 0, 0, 0, 0, 0}},
    {"unshare_mnt", 272, {CLONE_NEWNS, 0, 0, 0, 0, 0}},
    {"unshare_net", 272, {CLONE_NEWNET, 0, 0, 0, 0, 0}},
    {"clone_user", 56, {CLONE_NEWUSER | CLONE_FS, 0, 0, 0, 0, 0}},
    {"setns", 308, {BAD_FD, 0, 0, 0, 0, 0}},
    {"init_module", 175, {BAD_PTR, 0, BAD_PTR, 0, 0, 0}},
    {"finit_module", 313, {BAD_FD, BAD_PTR, 0, 0, 0, 0}},
    {"delete_module", 176, {BAD_PTR, 0, 0, 0, 0, 0}},
    {"kexec_load", 246, {0, 1, BAD_PTR, 0, 0, 0}},
    {"reboot", 169, {0, 0, 0, 0, 0, 0}},
    {"swapon", 167, {BAD_PTR, 0, 0, 0, 0, 0}},
    {"open_by_handle_at", 304, {BAD_FD, BAD_PTR, 0, 0, 0, 0}},
    {"settimeofday", 164, {BAD_PTR, 0, 0, 0, 0, 0}},
    {"clock_settime", 227, {0, BAD_PTR, 0, 0, 0, 0}},
    {"iopl", 172, {3, 0, 0, 0, 0, 0}},
    {"ioperm", 173, {0x80, 1, 1, 0, 0, 0}},
    {"acct", 163, {BAD_PTR, 0, 0, 0, 0, 0}},
    {"quotactl", 179, {0, 0, 0, 0, 0, 0}},
    {"syslog", 103, {3, BAD_PTR, 16, 0, 0, 0}},
    {"chroot", 161, {(long)"/", 0, 0, 0, 0, 0}},
    {"sethostname", 170, {(long)"x", 1, 0, 0, 0, 0}},
    {"clone3", 435, {BAD_PTR, 64, 0, 0, 0, 0}},
    {"pair_unix", 53, {AF_UNIX, SOCK_STREAM, 0, (long)pair, 0, 0}},
    {"pair_vsock", 53, {AF_VSOCK, SOCK_STREAM, 0, (long)pair, 0, 0}},
    {"pair_tipc", 53, {AF_TIPC, SOCK_STREAM, 0, (long)pair, 0, 0}},
    {"unknown_470", 470, {0, 0, 0, 0, 0, 0}},
    {"unknown_600", 600, {0, 0, 0, 0, 0, 0}},
    {"unknown_100000", 100000, {0, 0, 0, 0, 0, 0}},
    {"x32_getpid", 0x40000000 | 39, {0, 0, 0, 0, 0, 0}},
    {"x32_execve", 0x40000000 | 520, {BAD_PTR, 0, 0, 0, 0, 0}},
    {"getpid", 39, {0, 0, 0, 0, 0, 0}},
    {"setuid_0", 105, {0, 0, 0, 0, 0, 0}},
    {"setgid_0", 106, {0, 0, 0, 0, 0, 0}},
    {"mknod_null", 133, {(long)"/tmp/wall_probe_null", 0020666, 0x103, 0, 0, 0}},
    {"mkfifo", 133, {(long)"/tmp/wall_probe_fifo", 0010600, 0, 0, 0, 0}},
    {"memfd_create", 319, {(long)"x", 0, 0, 0, 0, 0}},
    {"fchmodat2", 452, {BAD_FD, (long)"x", 0, 0, 0, 0}},
    {"openat2", 437, {BAD_FD, BAD_PTR, BAD_PTR, 24, 0, 0}},
    {"pidfd_open", 434, {1000000, 0, 0, 0, 0, 0}},
    {"close_range", 436, {1000, 1001, 0, 0, 0, 0}},
    {"rseq", 334, {BAD_PTR, 0, 0, 0, 0, 0}},
};

static const struct {
	const char *name;
	int family, type, proto;
} sockets[] = {
    {"af_unix", AF_UNIX, SOCK_STREAM, 0},
    {"af_inet_stream", AF_INET, SOCK_STREAM, 0},
    {"af_inet_dgram", AF_INET, SOCK_DGRAM, 0},
    {"af_inet6_stream", AF_INET6, SOCK_STREAM, 0},
    {"af_inet_mptcp", AF_INET, SOCK_STREAM, 262},
    {"af_inet_sctp", AF_INET, SOCK_STREAM, 132},
    {"af_inet6_udplite", AF_INET6, SOCK_DGRAM, 136},
    {"af_inet_raw", AF_INET, SOCK_RAW, 1},
    {"af_packet", AF_PACKET, SOCK_RAW, 0},
    {"af_vsock", AF_VSOCK, SOCK_STREAM, 0},
    {"af_alg", AF_ALG, SOCK_SEQPACKET, 0},
    {"af_bluetooth", AF_BLUETOOTH, SOCK_RAW, 1},
    {"af_netlink_route", AF_NETLINK, SOCK_RAW, NETLINK_ROUTE},
    {"af_netlink_netfilter", AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER},
    {"af_netlink_audit", AF_NETLINK, SOCK_RAW, NETLINK_AUDIT},
    {"af_netlink_uevent", AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT},
    {"af_netlink_generic", AF_NETLINK, SOCK_RAW, NETLINK_GENERIC},
};

/* Each probe in its own child: what it does to the process ends with it. */
static void in_child(const char *name, int (*fn)(const void *), const void *arg)
{
	int status = 0;
	pid_t pid;

	(void)fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(fn(arg));
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		printf("%s nofork\n", name);
	else if (WIFSIGNALED(status))
		printf("%s signal %d\n", name, WTERMSIG(status));
	else
		printf("%s %d\n", name, WEXITSTATUS(status));
}

static int run_call(const void *arg)
{
	const struct probe *p = arg;
	pid_t me = getpid();
	long r = syscall(p->nr, p->a[0], p->a[1], p->a[2], p->a[3], p->a[4], p->a[5]);

	if (getpid() != me) /* a clone that worked: the copy says nothing */
		_exit(0);
	return r < 0 ? errno & 255 : 0;
}

static int run_socket(const void *arg)
{
	const int *p = arg;

	return socket(p[0], p[1] | SOCK_CLOEXEC, p[2]) < 0 ? errno & 255 : 0;
}

static int run_i386(const void *arg)
{
	int r;

	(void)arg;
	/* getpid of the 32-bit table: 0 means it was let through. */
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
	return r < 0 ? (-r) & 255 : 0;
}

static int run_tiocsti(const void *arg)
{
	char c = 'x';
	int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);

	(void)arg;
	return ioctl(fd, TIOCSTI, &c) < 0 ? errno & 255 : 0;
}

static int run_traced(const void *arg)
{
	(void)arg;
	return ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0 ? errno & 255 : 0;
}

static int run_jit(const void *arg)
{
	/* mov eax, 42; ret */
	static const uint8_t code[] = {0xb8, 42, 0, 0, 0, 0xc3};
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int (*fn)(void);

	(void)arg;
	if (p == MAP_FAILED)
		return errno & 255;
	memcpy(p, code, sizeof(code));
	if (mprotect(p, 4096, PROT_READ | PROT_EXEC) < 0)
		return errno & 255;
	memcpy(&fn, &p, sizeof(fn));
	return fn() == 42 ? 0 : 255;
}

static int table(void)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		in_child(calls[i].name, run_call, &calls[i]);
	for (size_t i = 0; i < sizeof(sockets) / sizeof(sockets[0]); i++)
		in_child(sockets[i].name, run_socket, &sockets[i].family);
	in_child("i386_getpid", run_i386, NULL);
	in_child("tiocsti", run_tiocsti, NULL);
	in_child("ptrace_traceme", run_traced, NULL);
	in_child("jit", run_jit, NULL);
	return 0;
}

static int hog(size_t mib)
{
	for (size_t i = 0; i < mib; i++) {
		char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED) {
			printf("mmap %d\n", errno);
			return 3;
		}
		for (size_t at = 0; at < 1 << 20; at += 4096)
			p[at] = (char)i;
	}
	puts("done");
	return 0;
}

static int forks(long n)
{
	long made = 0;
	int err = 0;

	for (; made < n; made++) {
		pid_t pid = fork();

		if (pid < 0) {
			err = errno;
			break;
		}
		if (pid == 0) {
			for (;;)
				(void)pause();
		}
	}
	printf("%ld %d\n", made, err);
	return 0;
}

static int fds(void)
{
	for (int fd = 0; fd < 4096; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			printf("%d\n", fd);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	long n = argc > 2 ? strtol(argv[2], NULL, 10) : 0;

	if (!strcmp(what, "fds"))
		return fds();
	if (!strcmp(what, "hog"))
		return hog((size_t)n);
	if (!strcmp(what, "fork"))
		return forks(n);
	if (!strcmp(what, "segv"))
		return raise(SIGSEGV);
	return table();
}

/*
 * Gains something by `sudo` inside, which starts it once more as root (or as itself, where there is one id).
 *
 * group: privileges
 * tries: have, as what sudo runs, capabilities, no filter or new privileges; mount, change the root, trace PID 1, open raw sockets
 * control: ns
 * run: --sudo yes
 */
#include <linux/capability.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <netinet/in.h>

#include "attack.h"

static long has_cap(int cap)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2];

	if (syscall(SYS_capget, &head, d) < 0)
		return -1;
	errno = EPERM;
	return (d[cap / 32].effective | d[cap / 32].permitted | d[cap / 32].inheritable) >> (cap % 32) & 1 ? 0 : -1;
}

static long is_off(int option)
{
	long r = prctl(option, 0, 0, 0, 0);

	errno = EPERM;
	return r == 0 ? 0 : -1;
}

static long trace_init(void)
{
	long r = ptrace(PTRACE_SEIZE, 1, 0, 0);

	if (r == 0)
		(void)ptrace(PTRACE_DETACH, 1, 0, 0);
	return r;
}

static void job(void)
{
	tried("sys-admin", has_cap(CAP_SYS_ADMIN));
	tried("sys-ptrace", has_cap(CAP_SYS_PTRACE));
	tried("net-admin", has_cap(CAP_NET_ADMIN));
	tried("mknod", has_cap(CAP_MKNOD));
	tried("new-privs", is_off(PR_GET_NO_NEW_PRIVS));
	tried("no-filter", is_off(PR_GET_SECCOMP));
	tried("trace-init", trace_init());
	tried("raw-socket", socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP));
	tried("mount", mount("x", "/mnt", "tmpfs", 0, NULL));
	tried("chroot", chroot("/tmp"));
}

/* 0: sudo ran us. */
static int by_sudo(const char *self, const char *user)
{
	int st = -1;
	pid_t pid = fork();

	if (pid == 0) {
		(void)execlp("sudo", "sudo", "-u", user, self, "job=1", NULL);
		_exit(127);
	}
	return waitpid(pid, &st, 0) == pid && st == 0 ? 0 : -1;
}

/* In the agent's place there is no agent to ask, and in the control no sandbox. */
static int in_sandbox(const char *self)
{
	return !strcmp(self, "/workspace/attack");
}

int main(int argc, char **argv)
{
	(void)argc;
	if (param_number(argv, "job")) {
		job();
		return 0;
	}
	if (!in_sandbox(argv[0]))
		job();
	else if (by_sudo(argv[0], "root") < 0 && by_sudo(argv[0], "user") < 0)
		got("nothing", "sudo did not run it");
	return ended();
}

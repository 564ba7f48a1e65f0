/*
 * What the agent's place gives: PID 1's capabilities, the cgroup leaf it holds, its way of clone3. As an ordinary
 * command it has none of these; tests/escape/agent.t runs it in the agent's place as well.
 *
 * group: the agent's place
 * tries: reach other cgroups from the leaf (kill, join, raise limits, list), regain capabilities, make namespaces by the agent's clone3, take host ids
 * control: guest
 * no-control: clone3-up a cgroup that hands controllers down takes no process
 */
#include <linux/capability.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/xattr.h>

#include "attack.h"

#define AGENT_CLONE3_ARGS 0x627269670000UL /* src/wire/agent_abi.h */

/* clone3 with its argument where the agent has it. */
static long agent_clone(uint64_t flags, uint64_t cgroup)
{
	static struct clone_args *a;
	int status = 0;
	long pid;

	if (!a)
		a = mmap((void *)AGENT_CLONE3_ARGS, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (a == MAP_FAILED)
		return -1;
	*a = (struct clone_args){.flags = flags, .exit_signal = SIGCHLD, .cgroup = cgroup};
	pid = syscall(SYS_clone3, a, sizeof(*a));
	if (pid == 0)
		_exit(0);
	return pid < 0 ? -1 : waitpid((pid_t)pid, &status, 0);
}

/* The leaf, or without one our own cgroup. */
static int leaf(char **argv)
{
	char line[512] = "", path[600];
	FILE *f;

	if (*param(argv, "leaf"))
		return (int)param_number(argv, "leaf");
	f = fopen("/proc/self/cgroup", "re");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "0::", 3))
			break;
	if (f)
		(void)fclose(f);
	line[strcspn(line, "\n")] = 0;
	(void)snprintf(path, sizeof(path), "/sys/fs/cgroup%s", !strncmp(line, "0::", 3) ? line + 3 : "");
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static long put(int dir, const char *path, const char *text)
{
	int fd = openat(dir, path, O_WRONLY | O_CLOEXEC);
	long r = fd < 0 ? -1 : write(fd, text, strlen(text));

	if (fd >= 0)
		(void)close(fd);
	return r;
}

/* A limit is "raised" by writing what it says: nothing changes where it works. */
static long rewrite(int dir, const char *path)
{
	char text[64] = "";
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		(void)close(fd);
	return n <= 0 ? -1 : put(dir, path, text);
}

static long list(int dir, const char *path)
{
	int fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -1 : close(fd);
}

static long clone_into(int group)
{
	return group < 0 ? -1 : agent_clone(CLONE_INTO_CGROUP, (uint64_t)group);
}

static void groups(int dir)
{
	struct stat here, there;
	char self[32];
	int up;

	(void)snprintf(self, sizeof(self), "%d", getpid());
	tried("list-above", list(dir, ".."));
	tried("list-top", list(dir, "../../../.."));
	tried("make", mkdirat(dir, "brig-escape", 0755));
	tried("make-above", mkdirat(dir, "../brig-escape", 0755));
	tried("kill-beside", put(dir, "../brig-escape/cgroup.kill", "1"));
	tried("join-beside", put(dir, "../brig-escape/cgroup.procs", self));
	(void)put(dir, "cgroup.procs", self);
	tried("clone3-beside", clone_into(openat(dir, "../brig-escape", O_PATH | O_DIRECTORY | O_CLOEXEC)));
	up = openat(dir, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fstat(dir, &here) == 0 && fstat(up, &there) == 0 && here.st_ino == there.st_ino)
		refused("clone3-up", EXDEV); /* the leaf is the top of what it was opened from */
	else
		tried("clone3-up", clone_into(up));
	tried("limit", rewrite(dir, "../pids.max") < 0 ? rewrite(dir, "../memory.max") : 0);
	tried("freeze-above", put(dir, "../cgroup.freeze", "0"));
	(void)unlinkat(dir, "brig-escape", AT_REMOVEDIR);
	(void)unlinkat(dir, "../brig-escape", AT_REMOVEDIR);
}

/* A capability beyond the agent's four and those of --root-caps files. */
static long raise_cap(void *arg)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2];
	unsigned cap = *(unsigned *)arg;

	if (syscall(SYS_capget, &h, d) < 0)
		return -1;
	d[0].effective |= 1u << cap;
	d[0].permitted |= 1u << cap;
	return syscall(SYS_capset, &h, d);
}

/* Does uid 0 get capabilities by execve? The new program is this one, which looks. */
static long by_execve(void *arg)
{
	static char x[] = "x", how[] = "look=1";
	char *argv[] = {x, how, NULL}, *env[] = {NULL};
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	(void)arg;
	if (fd < 0 || setresuid(0, 0, 0) < 0)
		return -1;
	(void)dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), 1);
	return execveat(fd, "", argv, env, AT_EMPTY_PATH);
}

static int look(void)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2];
	uint32_t given = 1u << CAP_SETUID | 1u << CAP_SETGID | 1u << CAP_KILL | 1u << CAP_CHOWN |
			 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER | 1u << CAP_FSETID;

	return syscall(SYS_capget, &h, d) == 0 && (d[0].permitted & ~given || d[1].permitted) ? 0 : EPERM;
}

static long other_uid(void *arg)
{
	return setresuid(*(uid_t *)arg, *(uid_t *)arg, *(uid_t *)arg);
}

static long bounding(void *arg)
{
	(void)arg;
	return prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN, 0, 0, 0) == 1 ? 0 : (errno = EPERM, -1);
}

static long securebits(void *arg)
{
	(void)arg;
	return prctl(PR_SET_SECUREBITS, 0, 0, 0, 0);
}

static long file_capability(void *arg)
{
	uint32_t v[5] = {0x02000001, 1u << CAP_NET_RAW, 0, 0, 0};
	int fd = open("/tmp/escape-cap", O_RDWR | O_CREAT | O_CLOEXEC, 0700);
	long r = fd < 0 ? -1 : fsetxattr(fd, "security.capability", v, sizeof(v), 0);

	(void)arg;
	(void)unlink("/tmp/escape-cap");
	return r;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *key;
		uint64_t flags;
	} spaces[] = {{"clone3-user", CLONE_NEWUSER}, {"clone3-mount", CLONE_NEWNS}, {"clone3-net", CLONE_NEWNET},
		      {"clone3-pid", CLONE_NEWPID},   {"clone3-ipc", CLONE_NEWIPC},  {"clone3-uts", CLONE_NEWUTS},
		      {"clone3-cgroup", CLONE_NEWCGROUP}, {"clone3-time", CLONE_NEWTIME}, {"clone3-all", CLONE_NEWUSER | CLONE_NEWNS}};
	static unsigned caps[] = {CAP_SYS_ADMIN, CAP_SYS_PTRACE, CAP_NET_ADMIN, CAP_SYS_CHROOT, CAP_MKNOD, CAP_SETPCAP};
	static uid_t host_uid = 1800000000;
	char key[32];
	int dir;

	(void)argc;
	if (*param(argv, "look"))
		return look();
	dir = leaf(argv);
	for (size_t i = 0; i < sizeof(spaces) / sizeof(*spaces); i++)
		tried(spaces[i].key, agent_clone(spaces[i].flags, 0));
	groups(dir);
	for (size_t i = 0; i < sizeof(caps) / sizeof(*caps); i++) {
		(void)snprintf(key, sizeof(key), "capability-%u", caps[i]);
		tried(key, in_child(raise_cap, &caps[i]));
	}
	tried("execve", in_child(by_execve, NULL));
	tried("bounding", bounding(NULL));
	tried("securebits", in_child(securebits, NULL));
	tried("host-uid", in_child(other_uid, &host_uid));
	tried("file-capability", file_capability(NULL));
	tried("node", mknod("/tmp/escape-node", S_IFCHR | 0600, 0x103));
	(void)unlink("/tmp/escape-node");
	return ended();
}

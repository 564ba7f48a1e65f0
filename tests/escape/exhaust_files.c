/*
 * Takes more of the disk and of inodes than it may have. The control is root of a mount namespace with
 * an unlimited tmpfs of its own.
 *
 * group: exhaustion
 * tries: write 24 MiB under a limit of 16 in each writable place and in them all together, and make 200,001 files, folders and links
 * control: ns
 * shows: host-disk host-names
 * run: --disk 16M --memory 512M
 * host: disk=20 names=10000
 * once: yes
 */
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>

#include "attack.h"

#define MIB (1024L * 1024)
#define NAMES 200001
#define SEEN 20000 /* fewer than a sandbox may have: whose file system they are in is what counts */

static long bytes(const char *dir, long n)
{
	static const char block[65536] = "x";
	char path[64];
	long sum = 0, w = 0;
	int fd;

	(void)snprintf(path, sizeof(path), "%s/escape", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	while (fd >= 0 && sum < n && (w = write(fd, block, sizeof(block))) > 0)
		sum += w;
	if (fd >= 0)
		(void)close(fd);
	return sum >= n ? 0 : -1;
}

static void places(void)
{
	static const char *const dirs[] = {"/tmp", "/var/tmp", "/run", "/dev/shm", "/workspace", "/home/user"};
	char path[64];
	long r = -1, all = 0;

	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++) {
		if (bytes(dirs[i], 24 * MIB) == 0)
			r = 0;
		(void)snprintf(path, sizeof(path), "%s/escape", dirs[i]);
		(void)unlink(path);
	}
	tried("bytes", r);
	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++)
		all += bytes(dirs[i], 8 * MIB) == 0;
	errno = ENOSPC;
	tried("together", all >= 3 ? 0 : -1);
	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++) {
		(void)snprintf(path, sizeof(path), "%s/escape", dirs[i]);
		(void)unlink(path);
	}
}

/* What a host's user could fill, for long enough to be seen from outside. */
static void shared_places(void)
{
	char path[64];
	int n = 0;

	(void)bytes("/dev/shm", 24 * MIB);
	do
		(void)snprintf(path, sizeof(path), "/dev/shm/escape-%d", n);
	while (mknod(path, S_IFREG | 0600, 0) == 0 && ++n < SEEN);
	(void)poll(NULL, 0, 500);
	while (n-- > 0) {
		(void)snprintf(path, sizeof(path), "/dev/shm/escape-%d", n);
		(void)unlink(path);
	}
	(void)unlink("/dev/shm/escape");
}

/* Files, folders, symbolic and hard links in turn. */
static long names(void *arg)
{
	char name[32];
	long r = mkdir("/tmp/escape-names", 0700) < 0 || chdir("/tmp/escape-names") < 0 ? -1 : 0;

	(void)arg;
	if (r == 0)
		r = mknod("first", S_IFREG | 0600, 0);
	for (int i = 0; r == 0 && i < NAMES; i++) {
		(void)snprintf(name, sizeof(name), "%d", i);
		r = i % 4 == 0 ? mknod(name, S_IFREG | 0600, 0) : i % 4 == 1 ? mkdir(name, 0700) : i % 4 == 2 ? symlink("x", name) : link("first", name);
	}
	return r;
}

int main(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	/* The control's own; in a sandbox it is refused and the places are as they are. */
	(void)unshare(CLONE_NEWNS);
	(void)mount("tmpfs", "/tmp", "tmpfs", 0, "nr_inodes=0");
	places();
	shared_places();
	tried("names", in_child(names, NULL));
	return ended();
}

/*
 * Makes and opens device nodes: memory, disks, loop, fuse, tun, kvm.
 *
 * group: devices
 * tries: make nodes of memory, a loop device, fuse and the kernel log, open and read them, and open what /dev offers
 * control: guest
 * no-control: kvm no /dev/kvm in the guest;
 *   fuse module not in the guest; loop module not in the guest
 */
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

#include "attack.h"

static void node(const char *key, mode_t type, unsigned major_nr, unsigned minor_nr)
{
	static const char *const dirs[] = {"/tmp", "/dev", "/workspace", "/var/tmp", "/dev/shm"};
	char path[64], made[40];
	long node = -1, opened = -1;

	(void)snprintf(made, sizeof(made), "mknod-%s", key);
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]) && opened < 0; i++) {
		(void)snprintf(path, sizeof(path), "%s/escape-%s", dirs[i], key);
		if (mknod(path, type | 0600, makedev(major_nr, minor_nr)) < 0)
			continue;
		node = 0;
		opened = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		(void)unlink(path);
	}
	tried(made, node);
	tried(key, opened);
}

/* Any node of /dev but the six, the terminals and what links lead to. */
static long offers(void)
{
	static const char *const fine[] = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"};
	DIR *d = opendir("/dev");
	struct dirent *e;
	long r = -1;

	while (d && (e = readdir(d))) {
		struct stat st;
		int known = 0;

		for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++)
			known |= !strcmp(e->d_name, fine[i]);
		if (!known && fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)))
			r = 0;
	}
	if (d)
		(void)closedir(d);
	errno = ENOENT;
	return r;
}

/* A disk there is: the first row of /proc/partitions, else what virtual machines call theirs. */
static void find_disk(unsigned *disk)
{
	char line[128];
	FILE *f = fopen("/proc/partitions", "re");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, " %u %u", &disk[0], &disk[1]) == 2)
			break;
	if (f)
		(void)fclose(f);
}

int main(int argc, char **argv)
{
	unsigned disk[2] = {254, 0};

	find_disk(disk);
	(void)argc;
	(void)argv;
	node("mem", S_IFCHR, 1, 1);
	node("kmsg", S_IFCHR, 1, 11);
	node("disk", S_IFBLK, disk[0], disk[1]);
	node("null", S_IFCHR, 1, 3);
	tried("fuse", open("/dev/fuse", O_RDWR | O_CLOEXEC));
	tried("kvm", open("/dev/kvm", O_RDWR | O_CLOEXEC));
	tried("loop", open("/dev/loop-control", O_RDWR | O_CLOEXEC));
	tried("dev-offers", offers());
	return ended();
}

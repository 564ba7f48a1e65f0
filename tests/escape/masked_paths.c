/*
 * Reads what is covered in /proc, by detours and while the folders on the way change.
 *
 * group: proc
 * tries: read covered files of /proc (keys, key-users, kallsyms) by name, through detours, O_PATH and while a link on the way is exchanged
 * control: plain
 */
#include <linux/fs.h>

#include "attack.h"

static const char *const files[] = {"keys", "key-users", "kallsyms"};
#define N (sizeof(files) / sizeof(files[0]))

static long readable(int fd)
{
	char c;
	long r = fd < 0 ? -1 : read(fd, &c, 1);

	if (fd >= 0)
		(void)close(fd);
	if (r == 0)
		errno = ENODATA;
	return r > 0 ? 0 : -1;
}

static long by_name(const char *prefix)
{
	long r = -1;

	for (size_t i = 0; i < N && r < 0; i++) {
		char path[96];

		(void)snprintf(path, sizeof(path), "%s/%s", prefix, files[i]);
		r = readable(open(path, O_RDONLY | O_CLOEXEC));
	}
	return r;
}

/* The node below the mask, should one be looked up without crossing mounts. */
static long by_path_fd(void)
{
	long r = -1;

	for (size_t i = 0; i < N && r < 0; i++) {
		char path[64];
		int fd = -1, proc = open("/proc", O_PATH | O_CLOEXEC);

		fd = openat(proc, files[i], O_PATH | O_NOFOLLOW | O_CLOEXEC);
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		r = fd < 0 ? -1 : readable(open(path, O_RDONLY | O_CLOEXEC));
		if (fd >= 0)
			(void)close(fd);
		(void)close(proc);
	}
	return r;
}

/* One process exchanges a link to /proc with a folder of ours, the other walks over it. */
static long by_race(void)
{
	char dir[] = "/tmp/maskXXXXXX", other[64], link[64];
	pid_t pid;
	long r = -1;

	if (!mkdtemp(dir))
		return -1;
	(void)snprintf(link, sizeof(link), "%s/a", dir);
	(void)snprintf(other, sizeof(other), "%s/b", dir);
	if (symlink("/proc", link) < 0 || mkdir(other, 0700) < 0)
		return -1;
	pid = fork();
	if (pid == 0)
		for (;;)
			(void)syscall(SYS_renameat2, AT_FDCWD, link, AT_FDCWD, other, RENAME_EXCHANGE);
	for (int64_t end = now_ms() + 700; r < 0 && now_ms() < end;)
		r = by_name(link);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	(void)unlink(link);
	(void)unlink(other);
	(void)rmdir(link);
	(void)rmdir(other);
	(void)rmdir(dir);
	return r;
}

int main(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	tried("name", by_name("/proc"));
	tried("self", by_name("/proc/self/.."));
	tried("thread-self", by_name("/proc/thread-self/../../.."));
	tried("pid-1", by_name("/proc/1/.."));
	tried("root", by_name("/proc/self/root/proc"));
	tried("o-path", by_path_fd());
	tried("exchange", by_race());
	return ended();
}

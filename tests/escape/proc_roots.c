/*
 * Reaches the host's files through what /proc shows of other processes.
 *
 * group: descriptors
 * tries: read the host's files through root, cwd, fd, map_files and exe of every process in /proc, PID 1 among them
 * control: plain
 * shows: canary-read
 */
#include <fcntl.h>

#include "attack.h"

/* Opens PID's /proc/PID/via + rest and prints what a scene's file says: 0, else -1. */
static long reach(pid_t pid, const char *via, const char *rest, char *out, size_t size)
{
	char path[512];
	ssize_t n;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s%s", pid, via, rest);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	n = fd < 0 ? -1 : read(fd, out, size - 1);
	if (fd >= 0)
		(void)close(fd);
	if (n <= 0)
		return -1;
	out[n] = 0;
	return 0;
}

static void all(const char *key, const char *via, const char *rest)
{
	DIR *d = NULL;
	pid_t pid;
	char text[128] = "";
	long r = -1;

	while ((pid = next_process(&d)))
		if (r < 0)
			r = reach(pid, via, rest, text, sizeof(text));
	if (r < 0)
		refused(key, errno);
	else
		got(key, text);
}

/* A foreign process's open files and its program: foreign when its /proc folder can be listed and it is not ours. */
static void listed(const char *key, const char *what)
{
	DIR *d = NULL;
	pid_t pid;
	long r = -1;

	errno = EACCES;
	while ((pid = next_process(&d))) {
		char path[64], target[256] = "";
		DIR *l;
		struct dirent *e;

		(void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, what);
		if (pid == getpid() || pid == getpgrp() || !(l = opendir(path)))
			continue;
		while ((e = readdir(l)))
			if (e->d_name[0] != '.' && readlinkat(dirfd(l), e->d_name, target, sizeof(target) - 1) > 0)
				r = 0;
		(void)closedir(l);
	}
	tried(key, r);
}

int main(int argc, char **argv)
{
	const char *canary = param(argv, "canary");
	char up[400];

	(void)argc;
	all("root", "root", canary);
	(void)snprintf(up, sizeof(up), "/../../../../../..%s", canary);
	all("cwd", "cwd", up);
	all("thread-root", "task/../root", canary);
	listed("fd", "fd");
	listed("map-files", "map_files");
	return ended();
}

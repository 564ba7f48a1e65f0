/*
 * What the attacks of this folder share: the scene's parameters, and the lines they report.
 *
 * An attack is a static program with arguments `key=value` that say where the scene's things are
 * (tests/escape/stage.py). For each thing it tries it prints one line, `got KEY VALUE` or `refused
 * KEY ERRNO`, and at its end `end`. KEYs are the same with and without a wall: what the control did
 * not get proves nothing inside. What it read of the scene it prints as VALUE, where the stage finds it.
 * Foreign text in VALUE is cut at the first unprintable byte.
 */
#ifndef ESCAPE_ATTACK_H
#define ESCAPE_ATTACK_H

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))

/* The value of parameter key, "" if the scene has none. */
UNUSED static const char *param(char **argv, const char *key)
{
	size_t n = strlen(key);

	for (char **a = argv + 1; *a; a++)
		if (!strncmp(*a, key, n) && (*a)[n] == '=')
			return *a + n + 1;
	return "";
}

UNUSED static long param_number(char **argv, const char *key)
{
	return strtol(param(argv, key), NULL, 0);
}

/* The attempt worked. value may be foreign; NULL: nothing to show. */
UNUSED static void got(const char *key, const char *value)
{
	printf("got %s ", key);
	for (size_t i = 0; value && isprint((unsigned char)value[i]); i++)
		putchar(value[i]);
	putchar('\n');
	(void)fflush(stdout);
}

UNUSED static void refused(const char *key, int err)
{
	printf("refused %s %d\n", key, err);
	(void)fflush(stdout);
}

/* For races, which try for a time, since the other side may not run at once. */
UNUSED static int64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The usual report of a call: r < 0 is refused, with errno. */
UNUSED static void tried(const char *key, long r)
{
	if (r < 0)
		refused(key, errno);
	else
		got(key, NULL);
}

/* Reads the start of a file and reports it; an empty or missing one is refused. */
UNUSED static void tried_read(const char *key, int dir, const char *path)
{
	char buf[4097] = ""; /* some files of the kernel give whole records, or words, or nothing */
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);

	if (n > 0)
		got(key, buf);
	else
		refused(key, n < 0 ? errno : 0);
	if (fd >= 0)
		(void)close(fd);
}

/* Runs fn in a child, so that what it changes of its process ends with it: its result, or -1 and errno. */
UNUSED static long in_child(long (*fn)(void *), void *arg)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(fn(arg) < 0 ? (errno ? errno & 127 : 127) : 0);
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return -1;
	errno = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
	return WIFEXITED(status) && errno == 0 ? 0 : -1;
}

/* The next process of /proc, 0 at the end; opens and closes *d. */
UNUSED static pid_t next_process(DIR **d)
{
	struct dirent *e;

	if (!*d)
		*d = opendir("/proc");
	while (*d && (e = readdir(*d)))
		if (isdigit((unsigned char)e->d_name[0]))
			return (pid_t)strtol(e->d_name, NULL, 10);
	if (*d)
		(void)closedir(*d);
	*d = NULL;
	return 0;
}

UNUSED static int ended(void)
{
	puts("end");
	return 0;
}

#endif

/*
 * Looks for what its caller knows: environment, command line, and memory of every process in /proc.
 *
 * group: processes
 * tries: find the caller's environment in /proc/PID/environ and in its own, and see the command lines of processes outside
 * control: plain
 * shows: env-read
 */
#include "attack.h"

extern char **environ;

/* Whether the file holds word; copies what follows it. */
static long holds(const char *path, const char *word, char *text, size_t size)
{
	static char buf[1 << 17];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf));
	char *at;

	if (fd >= 0)
		(void)close(fd);
	at = n <= 0 ? NULL : memmem(buf, (size_t)n, word, strlen(word));
	if (!at)
		return -1;
	(void)snprintf(text, size, "%.*s", (int)(buf + n - at), at);
	return 0;
}

int main(int argc, char **argv)
{
	char text[128] = "", path[64], number[32];
	long in_environ = -1, in_cmdline = -1, own = -1;
	DIR *d = NULL;
	pid_t pid;

	(void)argc;
	(void)snprintf(number, sizeof(number), "victim=%s", param(argv, "victim"));
	for (char **e = environ; *e; e++)
		if (!strncmp(*e, "BRIG_ESCAPE_ENV", 15))
			own = 0;
	while ((pid = next_process(&d))) {
		(void)snprintf(path, sizeof(path), "/proc/%d/environ", pid);
		if (in_environ < 0)
			in_environ = holds(path, "BRIG_ESCAPE_ENV=", text, sizeof(text));
		(void)snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
		if (pid != getpid() && in_cmdline < 0) {
			char line[64] = "";

			in_cmdline = holds(path, "stage.py", line, sizeof(line));
		}
	}
	errno = ENOENT;
	tried("own", own);
	if (in_environ < 0)
		refused("environ", ENOENT);
	else
		got("environ", text);
	errno = ENOENT;
	tried("cmdline", in_cmdline);
	return ended();
}

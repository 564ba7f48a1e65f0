/*
 * Gains an id by a setuid program: the image's su, and one of our own making.
 *
 * group: privileges
 * tries: become another user by a setuid program of the image, and by a copy of one made setuid in the workspace
 * control: plain
 * no-control: own-root a stranger's file cannot be made root's natively either
 */
#include "attack.h"

static int euid_of(pid_t pid, long *value)
{
	char path[64], line[256];
	FILE *f;
	int found = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "Uid:", 4)) {
			char *at = line + 4;

			(void)strtol(at, &at, 10);
			*value = strtol(at, &at, 10);
			found = 1;
		}
	if (f)
		(void)fclose(f);
	return found ? 0 : -1;
}

/* su waits for a password on its input: as whom? 0 when its effective id is not ours. */
static long runs_as_other(const char *path)
{
	int in[2], gate[2];
	long r = -1, before = (long)geteuid(), now = before;
	char c;
	pid_t pid;

	if (before == 0 || pipe(in) < 0 || pipe2(gate, O_CLOEXEC) < 0) {
		errno = EPERM; /* uid 0 has nothing to gain by su */
		return -1;
	}
	pid = fork();
	if (pid == 0) {
		(void)dup2(in[0], 0);
		(void)dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), 1);
		(void)dup2(1, 2);
		(void)close(in[1]);
		(void)execl(path, "su", "root", NULL);
		_exit(127);
	}
	(void)close(gate[1]);
	(void)read(gate[0], &c, 1); /* until its execve closed the gate */
	for (int i = 0; i < 3; i++)
		if (euid_of(pid, &now) == 0 && now != before)
			r = 0;
	(void)kill(pid, SIGKILL);
	(void)close(in[1]);
	(void)waitpid(pid, NULL, 0);
	errno = EPERM;
	return r;
}

/* A setuid copy of ourselves gives nothing but our own id; and it cannot be given to root. */
static long own(const char *self)
{
	char path[] = "/tmp/escape-setuid";
	static char buf[1 << 16];
	int in = open(self, O_RDONLY | O_CLOEXEC), out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	ssize_t n;
	long r;

	while (in >= 0 && out >= 0 && (n = read(in, buf, sizeof(buf))) > 0)
		if (write(out, buf, (size_t)n) != n)
			break;
	(void)close(in);
	(void)close(out);
	r = getuid() == 0 ? -1 : chown(path, 0, 0);
	if (r == 0)
		r = chmod(path, 04755);
	(void)unlink(path);
	return r;
}

int main(int argc, char **argv)
{
	(void)argc;
	tried("su", runs_as_other("/usr/bin/su"));
	tried("own-root", own(argv[0]));
	return ended();
}

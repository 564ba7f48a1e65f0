#include "client/watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* The end is asked for by a signal, which is the usual way out and no failure. */

static int signal_fd = -1;

int watch_begin(struct err *e)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return signal_fd < 0 ? err_set(e, ERR_INTERNAL, errno, "signalfd: %s", strerror(errno)) : 0;
}

bool watch_wait(int ms)
{
	struct pollfd pf[] = {{.fd = signal_fd, .events = POLLIN},
			      {.fd = STDOUT_FILENO, .events = 0}};

	return poll(pf, 2, ms) == 0;
}

void watch_clear(void)
{
	if (isatty(STDOUT_FILENO))
		(void)fputs("\033[H\033[J", stdout);
}

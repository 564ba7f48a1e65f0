#include "cmd/say.h"
/* Messages go out in one write(2) each, so that lines of parallel runs never mix. */
#include "base/num.h"
#include "cmd/command.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int say_raw(int fd, const void *p, size_t n)
{
	const char *c = (const char *)p;

	while (n > 0) {
		ssize_t w = write(fd, c, n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0 && errno == EAGAIN) {
			struct pollfd pf = {.fd = fd, .events = POLLOUT};

			(void)poll(&pf, 1, -1);
			continue;
		}
		if (w < 0)
			return -errno;
		c += w;
		n -= (size_t)w;
	}
	return 0;
}

static int status_len; /* columns the status line takes now */

void say_status(const char *text, bool below)
{
	struct pollfd pf = {.fd = STDERR_FILENO, .events = POLLOUT};
	char line[256];
	int n;

	if ((text == NULL && status_len == 0) || poll(&pf, 1, 0) != 1 || (pf.revents & POLLOUT) == 0)
		return;
	if (text == NULL)
		n = snprintf(line, sizeof(line), "\r%*s\r", status_len, "");
	else
		n = snprintf(line, sizeof(line), "%s\r%-*.70s", below && status_len == 0 ? "\r\n" : "",
			     status_len, text);
	status_len = text == NULL ? 0 : MAX(status_len, (int)strnlen(text, 70));
	if (n > 0 && say_raw(STDERR_FILENO, line, (size_t)n) < 0)
		status_len = 0; /* nobody looks any more */
}

void say(const char *fmt, ...)
{
	char line[640] = "brig: ";
	size_t at = strlen(line);
	va_list ap;
	int n;

	say_status(NULL, false);

	va_start(ap, fmt);
	n = vsnprintf(line + at, sizeof(line) - at - 1, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	at = strlen(line);
	line[at++] = '\n';
	if (say_raw(STDERR_FILENO, line, at) < 0)
		return; /* nobody listens: there is no other place to complain */
}

int say_err(const struct err *e)
{
	say("%s", e->msg);
	return EXIT_FAULT;
}

int say_usage(const char *command, const struct err *e)
{
	if (command == NULL)
		say("%s (see 'brig help')", e->msg);
	else
		say("%s: %s (see 'brig help %s')", command, e->msg, command);
	return EXIT_FAULT;
}

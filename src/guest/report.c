#include "guest/report.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Written by our own code in a child that already runs as the request's user. A child taken over
 * by what it reads could lie about its own request and nothing else. */

_Static_assert(sizeof(struct report) <= PIPE_BUF, "reports are written at once");

bool report_send(int fd, const struct report *r)
{
	ssize_t n;

	do
		n = write(fd, r, sizeof(*r));
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(*r);
}

void report_error(int fd, int err, const char *what, const char *name)
{
	struct report r = {.type = REPORT_ERROR, .err = err};
	const char *why = strerror(err);

	if (why == NULL)
		why = "unknown error";
	if (name != NULL)
		(void)snprintf(r.text, sizeof(r.text), "%s '%.150s': %s", what, name, why);
	else
		(void)snprintf(r.text, sizeof(r.text), "%s: %s", what, why);
	(void)report_send(fd, &r);
}

int report_read(int fd, struct report *ret)
{
	struct report r;
	ssize_t n = read(fd, &r, sizeof(r));

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -EPIPE;
	if (n == 0)
		return -EPIPE;
	if ((size_t)n != sizeof(r) || r.type < REPORT_ERROR || r.type > REPORT_READY)
		return -EPROTO;
	r.text[sizeof(r.text) - 1] = '\0';
	*ret = r;
	return 1;
}

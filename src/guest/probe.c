#include "guest/probe.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/*
 * The two halves of a report. The command's process is a copy of PID 1, or borrows its memory, so the
 * half that PID 1 filled in is there already. PID 1 is suspended meanwhile when its memory is borrowed:
 * the host answers at once, and should it die, the socket's end comes instead of the word.
 *
 * The socket's other end is the host's. The file of the host is opened for nothing but the errno.
 */

struct probe *probe_begin(int outside_fd)
{
	static struct probe p;

	/* what an earlier one filled in, and not all of it: a page never touched is never made */
	memset(&p, 0, probe_size(&p));
	p.magic = PROBE_MAGIC;
	p.version = PROBE_VERSION;
	probe_task(&p.init, outside_fd);
	probe_sandbox(&p);
	return &p;
}

int probe_finish(struct probe *p, int sock_fd, int outside_fd, bool try_net)
{
	char word = 0;
	ssize_t n;

	probe_command(&p->command, outside_fd, try_net);
	if (send(sock_fd, p, probe_size(p), MSG_NOSIGNAL) != (ssize_t)probe_size(p))
		return -errno;
	do
		n = recv(sock_fd, &word, 1, 0);
	while (n < 0 && errno == EINTR);
	return n == 1 && word == PROBE_GO ? 0 : -ECANCELED;
}

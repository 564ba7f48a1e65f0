#include "guest/probe.h"

#include "sys/raw.h"

#include <errno.h>
#include <string.h>

/*
 * The two halves of a report. The command's process borrows PID 1's memory or is a copy of it, and
 * both measure at the same time, so each fills in and sends the half that is its own. PID 1 is done
 * before the process is, as a rule, and so what it measures costs a start next to nothing where
 * there are two processors. Should the host die, the socket's end comes to the process instead of
 * the word.
 *
 * The file of the host is opened for nothing but the errno.
 */

enum { INIT_TEXT_MAX = 32 * 1024, COMMAND_TEXT_MAX = 4096 };
#define SELF "/proc/self"

struct probe *probe_new(void)
{
	static struct probe p;
	static bool used;

	/* what an earlier one filled in: a page never touched is made by whoever fills it in, later
	 */
	if (used)
		memset(&p, 0, PROBE_INIT_AT + probe_init_size(&p));
	used = true;
	p.head = p.command_head =
	    (struct probe_head){.magic = PROBE_MAGIC, .version = PROBE_VERSION};
	p.command_head.half = PROBE_OF_COMMAND;
	p.head.half = PROBE_OF_INIT;
	return &p;
}

void probe_init_half(struct probe *p, int sock_fd, int outside_fd, bool try_net)
{
	static char text[INIT_TEXT_MAX];
	struct probe_view v = {.self_fd = raw_open(SELF, O_PATH | O_DIRECTORY),
			       .outside_fd = outside_fd,
			       .text = text,
			       .room = sizeof(text)};

	probe_task(&p->init, &v);
	probe_sandbox(p, &v);
	probe_world(&p->world, try_net);
	if (v.self_fd >= 0)
		raw_close(v.self_fd);
	(void)raw_send(sock_fd, &p->head, probe_init_size(p));
}

int probe_command_half(struct probe *p, int sock_fd, int outside_fd)
{
	static char text[COMMAND_TEXT_MAX] __attribute__((aligned(8)));
	struct probe_view v = {.self_fd = raw_open(SELF, O_PATH | O_DIRECTORY),
			       .outside_fd = outside_fd,
			       .text = text,
			       .room = sizeof(text)};
	char word = 0;
	long n;

	probe_command(&p->command, &v);
	if (v.self_fd >= 0)
		raw_close(v.self_fd);
	n = raw_send(sock_fd, p, PROBE_COMMAND_SIZE);
	if (n != PROBE_COMMAND_SIZE)
		return n < 0 ? (int)n : -EIO;
	do
		n = raw_read(sock_fd, &word, 1);
	while (n == -EINTR);
	return n == 1 && word == PROBE_GO ? 0 : -ECANCELED;
}

/*
 * Raises and passes the limits each process has. The control is root.
 *
 * group: exhaustion
 * tries: raise the limits of descriptors, locked memory and message queues and take more: 70,000, 16 MiB, 2 MiB
 * control: guest
 */
#include <mqueue.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "attack.h"

#define MIB (1024L * 1024)
#define FDS 70000

static void raise_to(int what, rlim_t most)
{
	struct rlimit l = {.rlim_cur = most, .rlim_max = most};

	if (setrlimit(what, &l) == 0 || getrlimit(what, &l) < 0)
		return;
	l.rlim_cur = l.rlim_max; /* all there is */
	(void)setrlimit(what, &l);
}

static long lock(void *arg)
{
	void *p = mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)arg;
	raise_to(RLIMIT_MEMLOCK, RLIM_INFINITY);
	return p == MAP_FAILED ? -1 : mlock(p, 16 * MIB);
}

static long queue(void *arg)
{
	struct mq_attr a = {.mq_maxmsg = 10, .mq_msgsize = 8192};
	char name[32];
	int n = 0, e = 0;

	(void)arg;
	raise_to(RLIMIT_MSGQUEUE, RLIM_INFINITY);
	while (n < 25 && e == 0) {
		(void)snprintf(name, sizeof(name), "/escape-%d", n++);
		if (mq_open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0600, &a) < 0)
			e = errno;
	}
	while (n-- > 0) {
		(void)snprintf(name, sizeof(name), "/escape-%d", n);
		(void)mq_unlink(name);
	}
	errno = e;
	return e ? -1 : 0;
}

static long descriptors(void *arg)
{
	(void)arg;
	raise_to(RLIMIT_NOFILE, FDS + 100);
	for (int i = 0; i < FDS; i++)
		if (dup(1) < 0)
			return -1;
	return 0;
}

int main(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	tried("lock", in_child(lock, NULL));
	tried("queue", in_child(queue, NULL));
	tried("descriptors", in_child(descriptors, NULL));
	return ended();
}

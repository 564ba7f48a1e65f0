/*
 * Reaches memory, queues and semaphores other processes share under names or numbers.
 *
 * group: processes
 * tries: attach the caller's SysV shared memory, open its message queue and its file in /dev/shm, and list what there is
 * control: plain
 * shows: canary-read
 */
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/shm.h>

#include "attack.h"

int main(int argc, char **argv)
{
	struct shmid_ds info;
	char name[128];
	int id = (int)param_number(argv, "shm");
	const char *at = shmat(id, NULL, SHM_RDONLY);
	long listed = -1;

	(void)argc;
	if ((intptr_t)at != -1)
		got("shm", at);
	else
		refused("shm", errno);
	for (int i = 0; i < 1024 && listed < 0; i++)
		listed = shmctl(i, SHM_STAT, &info);
	tried("list", listed);
	(void)snprintf(name, sizeof(name), "/dev/shm/%s", param(argv, "ipc"));
	tried_read("posix-shm", AT_FDCWD, name);
	(void)snprintf(name, sizeof(name), "/%s", param(argv, "ipc"));
	tried("mq", mq_open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
	tried("msg", msgget((key_t)param_number(argv, "msgkey"), 0));
	return ended();
}

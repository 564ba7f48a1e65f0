/*
 * Makes more processes than it may have.
 *
 * group: exhaustion
 * tries: have 100 under a limit of 60: children, threads, dead ones nobody waits for, children of children (a fork bomb)
 * control: plain
 * shows: many-processes host-tasks
 * run: --pids 60
 * host: tasks=85
 * once: yes
 */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "attack.h"

#define N 100

static atomic_int *made; /* by all of a bomb together */

static void forever(void)
{
	for (;;)
		(void)pause();
}

static long children(void)
{
	for (int i = 0; i < N; i++) {
		pid_t pid = fork();

		if (pid == 0)
			forever();
		if (pid < 0)
			return -1;
	}
	(void)poll(NULL, 0, 1000); /* to be seen from outside */
	return 0;
}

static void *sleeper(void *arg)
{
	forever();
	return arg;
}

static long threads(void)
{
	pthread_attr_t a;
	pthread_t t;

	(void)pthread_attr_init(&a);
	(void)pthread_attr_setstacksize(&a, 65536);
	for (int i = 0; i < N; i++)
		if ((errno = pthread_create(&t, &a, sleeper, NULL)))
			return -1;
	return 0;
}

static long dead(void)
{
	for (int i = 0; i < N; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(0);
		if (pid < 0)
			return -1;
	}
	return 0;
}

/* Each makes two, while there are not enough. */
static void grow(void)
{
	for (int i = 0; i < 2 && atomic_load(made) < N; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			atomic_fetch_add(made, 1);
			grow();
			forever();
		}
	}
}

static long bomb(void)
{
	grow();
	for (int i = 0; i < 50 && atomic_load(made) < N; i++)
		(void)poll(NULL, 0, 10);
	errno = EAGAIN;
	return atomic_load(made) >= N ? 0 : -1;
}

/* In a group of its own, which ends with it. */
static void group(const char *key, long (*fn)(void))
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		(void)setpgid(0, 0);
		_exit(fn() < 0 ? errno & 127 : 0);
	}
	(void)waitpid(pid, &status, 0);
	(void)kill(-pid, SIGKILL);
	errno = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
	tried(key, errno == 0 ? 0 : -1);
}

int main(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	made = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	group("children", children);
	group("threads", threads);
	group("dead", dead);
	group("bomb", bomb);
	return ended();
}

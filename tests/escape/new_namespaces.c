/*
 * Makes namespaces of its own, where a process has every capability and the kernel's rarely used code is open.
 *
 * group: namespaces
 * tries: make user namespaces and, in or without one, every other kind: unshare, clone, clone3
 * control: plain
 */
#include <linux/sched.h>
#include <sched.h>

#include "attack.h"

static long with_unshare(void *arg)
{
	return syscall(SYS_unshare, *(unsigned long *)arg);
}

static long reap(long pid)
{
	if (pid == 0)
		_exit(0);
	if (pid > 0)
		(void)waitpid((pid_t)pid, NULL, 0);
	return pid;
}

static long with_clone(void *arg)
{
	return reap(syscall(SYS_clone, *(unsigned long *)arg | SIGCHLD, 0, 0, 0, 0));
}

static long with_clone3(void *arg)
{
	struct clone_args a = {.flags = *(unsigned long *)arg, .exit_signal = SIGCHLD};

	return reap(syscall(SYS_clone3, &a, sizeof(a)));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		unsigned long flag;
	} kinds[] = {{"user", 0}, {"mnt", CLONE_NEWNS}, {"pid", CLONE_NEWPID}, {"net", CLONE_NEWNET}, {"ipc", CLONE_NEWIPC},
		     {"uts", CLONE_NEWUTS}, {"cgroup", CLONE_NEWCGROUP}, {"time", CLONE_NEWTIME}};
	static const struct {
		const char *name;
		long (*fn)(void *);
	} ways[] = {{"unshare", with_unshare}, {"clone", with_clone}, {"clone3", with_clone3}};

	(void)argc;
	(void)argv;
	for (size_t w = 0; w < 3; w++)
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
			unsigned long flags = kinds[k].flag, with_user = flags | CLONE_NEWUSER;
			char key[32];
			long r;

			if (w == 1 && flags == CLONE_NEWTIME) /* clone(2) has no such flag */
				continue;
			(void)snprintf(key, sizeof(key), "%s-%s", ways[w].name, kinds[k].name);
			r = flags ? in_child(ways[w].fn, &flags) : -1;
			if (r < 0)
				r = in_child(ways[w].fn, &with_user);
			tried(key, r);
		}
	return ended();
}

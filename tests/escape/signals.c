/*
 * Sends signals out of the sandbox. The control is in a process namespace of its own, where kill(-1) is harmless.
 *
 * group: processes
 * tries: signal processes outside: by number, to everybody (-1), to a process group, by thread, by queue, by pidfd; join their group
 * control: ns
 * shows: victim-signalled
 */
#include "attack.h"

int main(int argc, char **argv)
{
	pid_t victim = (pid_t)param_number(argv, "victim");
	siginfo_t info = {.si_code = SI_QUEUE};
	long fd;

	(void)argc;
	for (int nr = 1; nr < 32; nr++) /* those we send reach ourselves too */
		(void)signal(nr, SIG_IGN);
	tried("kill", victim > 1 ? kill(victim, SIGUSR1) : -1);
	tried("group", victim > 1 ? kill(-victim, SIGUSR1) : -1);
	tried("thread", victim > 1 ? syscall(SYS_tgkill, victim, victim, SIGUSR2) : -1);
	tried("queue", victim > 1 ? syscall(SYS_rt_sigqueueinfo, victim, SIGUSR2, &info) : -1);
	fd = victim > 1 ? syscall(SYS_pidfd_open, victim, 0) : -1;
	tried("pidfd", fd < 0 ? -1 : syscall(SYS_pidfd_send_signal, fd, SIGUSR1, NULL, 0));
	/* No report of its own: it succeeds whenever anybody hears it. The victim says whether it did. */
	(void)kill(-1, SIGUSR1);
	tried("see", victim > 1 ? getsid(victim) : -1);
	tried("priority", victim > 1 ? syscall(SYS_setpriority, 0, victim, 19) : -1);
	tried("limits", victim > 1 ? syscall(SYS_prlimit64, victim, 7, NULL, &(struct { uint64_t a, b; }){0, 0}) : -1);
	return ended();
}

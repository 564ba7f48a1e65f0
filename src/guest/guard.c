#include "guest/child_priv.h"
#include "guest/priv.h"
#include "guest/report.h"
#include "sys/call.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * The guard: subreaper of one exec. Holds the agent's user id but no capability, reads nothing,
 * and lives until its last descendant has ended. A program of the same uid may kill it; PID 1 takes
 * that as the end of the exec.
 */
static noreturn void be_guard(const struct child *c, pid_t cmd)
{
	sigset_t all;

	sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	if (dup3(c->status, STATUS_FD, O_CLOEXEC) < 0 && c->status != STATUS_FD)
		_exit(1);
	(void)sys_close_range(STATUS_FD + 1, ~0u, 0);
	if (priv_drop(false) < 0)
		_exit(1);
	(void)report_send(STATUS_FD, &(struct report){.type = REPORT_PID, .pid = cmd});
	for (;;) {
		struct rusage ru;
		int st;
		pid_t pid = wait4(-1, &st, 0, &ru);

		if (pid < 0 && errno == EINTR)
			continue;
		if (pid < 0)
			_exit(0);
		if (pid != cmd)
			continue;
		(void)report_send(STATUS_FD,
			    &(struct report){
				.type = REPORT_EXIT,
				.wait_status = st,
				.utime_us = (uint64_t)ru.ru_utime.tv_sec * 1000000u + (uint64_t)ru.ru_utime.tv_usec,
				.stime_us = (uint64_t)ru.ru_stime.tv_sec * 1000000u + (uint64_t)ru.ru_stime.tv_usec,
				.maxrss_kib = (uint64_t)ru.ru_maxrss,
			    });
	}
}

noreturn void child_guard(const struct child *c)
{
	struct child told = *c;
	pid_t pid;

	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0) {
		report_error(c->status, errno, "guarding the processes", NULL);
		_exit(1);
	}
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid < 0) {
		report_error(c->status, errno, "starting a process", NULL);
		_exit(1);
	}
	if (pid == 0 && c->conn_fd >= 0)
		child_sudo(c);
	told.tells_pid = true; /* it may fail before we run again, and a start is told before its failure */
	if (pid == 0)
		child_exec(&told);
	be_guard(c, pid);
}

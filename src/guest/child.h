#pragma once
/*
 * The child's side of a start: from the fork in PID 1 to execve(2), or to a built-in worker. Nothing
 * here returns. Errors are told through the status pipe.
 */
#include "guest/ask.h"

#include <stdbool.h>
#include <stdnoreturn.h>
#include <sys/resource.h>

struct child_rules { /* the same for every child of one agent */
	const char *user;        /* default user */
	bool root_keeps_files;   /* uid 0 keeps the file capabilities */
	struct rlimit nofile;    /* what programs get, the agent raised its own */
};

struct child {
	const struct ask *ask;
	const struct child_rules *rules;
	int std[3];  /* -1 = /dev/null for stdin, else to be made descriptor 0, 1, 2 */
	int null_fd; /* an open /dev/null */
	int tty;     /* terminal master, -1 = none */
	struct probe *report; /* exec: to be completed and sent to sock_fd before anything runs; else NULL */
	int sock_fd, outside_fd; /* with it, see wire/probe.h */
	int status;  /* the status pipe's write end */
	bool own_std; /* std are ours: hand them to the user */
};

noreturn void child_exec(const struct child *c);
noreturn void child_work(const struct child *c);
/* exec with a guard in between; called in the guard-to-be, ends in child_exec or as the guard. */
noreturn void child_guard(const struct child *c);

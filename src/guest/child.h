#pragma once
/*
 * The child's side of a start: from the fork in PID 1 to execve(2), or to a built-in worker. Nothing
 * here returns. Errors are told through the status pipe.
 */
#include "guest/ask.h"

#include <stdbool.h>
#include <stdnoreturn.h>
#include <sys/resource.h>
#include <sys/types.h>

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
	bool measure; /* exec: a report is sent to sock_fd before anything runs, see guest/probe.h */
	int sock_fd, outside_fd; /* with it, see wire/probe.h */
	int conn_fd;             /* wire/sudo.h: the request comes over it, ask is NULL; -1 = none */
	uid_t caller_uid;        /* with it: who asks */
	gid_t caller_gid;
	int status;  /* the status pipe's write end */
	bool tells_pid; /* exec: REPORT_PID first of all, and nothing runs when nobody reads it */
};

noreturn void child_exec(const struct child *c);
/*
 * For who lent its memory to a child_exec (CLONE_VM), once it has it back: frees what the child allocated. False:
 * the child ended where more may be left, so this memory is not to be lent again.
 */
bool child_gave_back(void);
noreturn void child_work(const struct child *c);
/* exec with a guard in between; called in the guard-to-be, ends in child_exec or as the guard. */
noreturn void child_guard(const struct child *c);

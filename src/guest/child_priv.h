#pragma once
/* Steps of a start in the child, for those who take more than one: child.c, guard.c, sudo_child.c. */
#include "guest/child.h"
#include "guest/user.h"

enum { STATUS_FD = 3 };

/* Tell STATUS_FD and end. */
noreturn void child_fail(int err, const char *what, const char *name);
/* Make keep[0..n) the descriptors 0..n-1 (-1: closed; above 2: closed by execve(2)) and close all others. Changes keep. */
void child_descriptors(int *keep, int n);
/* Session, signals, limits, umask. */
void child_reset(const struct child *c);
/* Each ends the child when it fails. */
void child_find_user(const struct child *c, struct user *u);
void child_become(const struct child *c, const struct user *u);
noreturn void child_run(char **argv, char **env);

/* ---- sudo_child.c: what a process of the sandbox asks for over c->conn_fd ---- */
noreturn void child_sudo(const struct child *c);

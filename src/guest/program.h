#pragma once
/* The last steps of a start: the environment of a program, and the program looked for and run. */
#include "guest/ask.h"
#include "guest/user.h"

/*
 * The caller's variables, and what every program expects where they lack it. One block from malloc, with pointers
 * into static memory beside it: one environment at a time. more: at most PROGRAM_ENV_MORE others, NULL-terminated, borrowed;
 * NULL = none. NULL when there is no memory.
 */
enum { PROGRAM_ENV_MORE = 3 };
char **program_env(const struct ask *q, const struct user *u, char *const *more);
/* execve(2) of argv[0], looked for along env's PATH unless it has a '/'. Returns on failure only: the errno to report. */
int program_run(char **argv, char **env);

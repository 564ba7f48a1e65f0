#pragma once
/* A command in a sandbox of a daemon, with the caller's standard streams, signals and terminal. */
#include "client/api.h"

struct remote_exec {
	const char *const *argv; /* NULL-terminated */
	json_t *env;		 /* object of strings; borrowed */
	const char *cwd, *user;	 /* NULL = as the sandbox has it */
	uint64_t timeout_ms;	 /* 0 = none */
	bool interactive, tty;
};
/* Run it to its end. *ret: the exit code brig has. Fails when nothing is known of its end. */
int must_check remote_exec(struct client *c, const struct box_ref *b, const struct remote_exec *x,
			   int *ret, struct err *e);

#pragma once
/*
 * The program `sudo` of a sandbox of the container tier, where no setuid program gains anything: it asks PID 1 to start the
 * command (wire/sudo.h), passes signals on and ends as the command does. It has no privilege and needs nothing
 * of the image. What it takes and prints follows sudo(8), as far as it can mean something here.
 */
#include "base/buf.h"
#include "parse/user.h"

#include <stdbool.h>

enum sudo_mode { SUDO_RUN, SUDO_LOGIN, SUDO_SHELL, SUDO_LIST, SUDO_VALIDATE, SUDO_FORGET, SUDO_HELP, SUDO_VERSION_TEXT };

struct sudo_args {
	enum sudo_mode mode;
	const char *user;     /* NAME or UID; "root" by default */
	bool keep_env;        /* -E */
	const char *keep;     /* --preserve-env=: names, separated by commas; NULL = none */
	bool set_home;        /* -H */
	const char *const *assign;       /* NAME=VALUE ..., assign_n of them */
	size_t assign_n;
	const char *const *argv;        /* the command, NULL-terminated; empty = none */
};

/* Pure: read a command line. 0, or -EINVAL with one line of why. Strings are borrowed from argv. */
int must_check sudo_args_parse(const char *const *argv, struct sudo_args *ret, char *why, size_t size);

/* Pure: is the variable "NAME=VALUE" handed on by these arguments? */
bool sudo_keeps(const struct sudo_args *a, const char *var);
/* Pure: the words joined for a shell's -c, as sudo does it: all but letters, digits, _, - and $ with a backslash. NULL = no memory. */
char *sudo_quote(const char *const *words);

/*
 * Put the request into b. env is the caller's, umask its own; target is who is meant, NULL = not in /etc/passwd, shell the
 * caller's for -s, command where the program was found (for SUDO_COMMAND). 0, -E2BIG, -ENOMEM.
 */
int must_check sudo_request(const struct sudo_args *a, char *const *env, unsigned mask, const struct user *target,
			    const char *shell, const char *command, struct buf *b);

int sudo_main(int argc, char **argv, char **env);

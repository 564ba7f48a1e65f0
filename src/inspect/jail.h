#pragma once
#include "base/err.h"

/*
 * Lock the process in: an id of its own where it is the host's root, no capability, no file, no way to make a socket, no
 * system call outside seccomp.def (sys/confine.h). 0, or -errno with what failed in *why: then nothing may be served.
 */
int must_check inspect_jail(char *why, size_t size);

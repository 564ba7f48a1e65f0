#pragma once
#include "base/err.h"

/*
 * Lock the gate's process in: an id of its own where it is the host's root, no capability, no_new_privs,
 * not dumpable, no file but the random device, no system call outside seccomp.def. 0, or -errno with
 * what failed in *why: then nothing may be served. Memory and descriptor limits are raised as far as the
 * caller's hard ones.
 */
int must_check jail_enter(char *why, size_t size);

#pragma once
/*
 * The agent's measuring of the walls around it, for an EXEC with REQ_FD_MEASURE (wire/probe.h): PID 1
 * of itself, then the command's own process of itself, after every step of its start but execve(2).
 * Behind that call stands nothing new: no set has a capability execve could give back, securebits are
 * locked, no_new_privs is on, descriptors above 2 close.
 */
#include "wire/probe.h"

#include <stdbool.h>

/* In PID 1, before the process is started: the report's first half. Static; one at a time. */
struct probe *probe_begin(int outside_fd);
/*
 * In the command's process: complete the report, send it, wait for the word to go on. 0 and the word
 * has come, else -errno (-ECANCELED: the other side does not want it started).
 */
int must_check probe_finish(struct probe *p, int sock_fd, int outside_fd, bool try_net);

/* ---- parts; what cannot be found out is left 0 ---- */
/* outside_fd: a file of the host (O_PATH), -1 = none, which counts as refused with EBADF. */
void probe_task(struct probe_task *t, int outside_fd);			    /* probe_task.c */
void probe_command(struct probe_command *c, int outside_fd, bool try_net); /* probe_world.c */
void probe_sandbox(struct probe *p); /* probe_mounts.c: maps, interfaces, kernel, mounts */
/* Read a file of /proc into probe_text, as a C string; bytes, 0 when it cannot be had. */
size_t probe_read(const char *path); /* probe_task.c */
enum { PROBE_TEXT_MAX = 32 * 1024 };
extern char probe_text[PROBE_TEXT_MAX]; /* one for all: each page that is touched is to be made first */

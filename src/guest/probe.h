#pragma once
/*
 * The agent's measuring of the walls around it, for PROBE: of PID 1, and of a process that went
 * through every step of a command's start up to its execve(2). Behind that call stands nothing new:
 * no set has a capability execve could give back, securebits are locked, no_new_privs is on,
 * descriptors above 2 close.
 */
#include "guest/agent.h"
#include "wire/probe.h"

/* Answer PROBE. fds are those of ask_fds, owned. Refused once anything else was started. */
void probe_start(struct agent *a, struct job *j, const struct ask *q, const int *fds);

/* ---- parts; what cannot be found out is left 0 ---- */
/* outside_fd: a file of the host (O_PATH), -1 = none, which counts as refused with EBADF. */
void probe_task(struct probe_task *t, int outside_fd); /* probe_task.c */
void probe_command(struct probe_command *c);	       /* probe_world.c */
void probe_sandbox(struct probe *p); /* probe_mounts.c: maps, interfaces, kernel, mounts */
/* Read a file of /proc as a C string; bytes, 0 when it cannot be had. */
size_t probe_read(const char *path, char *dst, size_t size); /* probe_task.c */

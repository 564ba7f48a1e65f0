#pragma once
/*
 * The agent's measuring of the walls around it, for an EXEC with REQ_FD_MEASURE (wire/probe.h): the
 * command's own process of itself, after every step of its start but execve(2), and PID 1 of itself
 * meanwhile. Behind that call stands nothing new: no set has a capability execve could give back,
 * securebits are locked, no_new_privs is on, descriptors above 2 close.
 */
#include "wire/probe.h"

#include <stdbool.h>

/* A report that is empty, before the process is started. Static; one at a time. */
struct probe *probe_new(void);
/*
 * In PID 1, when the process runs: measure, and send that half. Makes plain system calls only
 * (sys/raw.h) and touches nothing but its half, since the process may be using PID 1's memory. That
 * the other side is gone the process learns.
 */
void probe_init_half(struct probe *p, int sock_fd, int outside_fd, bool try_net);
/*
 * In the command's process: measure, send that half, wait for the word to go on. 0 and the word
 * has come, else -errno (-ECANCELED: the other side does not want it started).
 */
int must_check probe_command_half(struct probe *p, int sock_fd, int outside_fd);

/* ---- parts; what cannot be found out is left 0 ---- */
/* From where a process looks. `text` is for whatever is being read; no two that run at once share
 * one. */
struct probe_view {
	int self_fd;	/* its folder in /proc, -1 = there is none */
	int outside_fd; /* a file of the host (O_PATH), -1 = none, which counts as refused with
			   EBADF */
	char *text;
	size_t room;
	uint32_t fd_slots; /* by probe_task: its descriptors are all below */
};
void probe_task(struct probe_task *t, struct probe_view *v); /* probe_task.c */
void probe_sandbox(struct probe *p,
		   struct probe_view *v); /* probe_mounts.c: maps, interfaces, kernel, mounts */
void probe_world(struct probe_world *w, bool try_net);		   /* probe_world.c */
void probe_command(struct probe_command *c, struct probe_view *v); /* probe_command.c */

/* ---- for them: probe_task.c ---- */
/* Read a file of v->self_fd into v->text, as a C string; bytes, 0 when it cannot be had. */
size_t probe_read(const struct probe_view *v, const char *name);
/* The number in `base` at *at, behind blanks; 0 when there is none. Moves *at behind it. */
uint64_t probe_number(const char **at, unsigned base);

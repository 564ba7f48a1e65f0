#pragma once
/*
 * The agent's measuring of the walls around it, for an EXEC with REQ_FD_MEASURE (wire/probe.h): PID 1 of itself when it
 * starts and of the world then, the command's own process of itself after every step of its start but execve(2). Behind that call stands
 * nothing new: no set has a capability execve could give back, securebits are locked, no_new_privs is on,
 * descriptors above 2 close. By system calls as they are (sys/raw.h).
 */
#include "guest/ask.h"
#include "wire/probe_compare.h"

#include <stdbool.h>

/* In PID 1, when all is in place that will ever be: measure itself. Once. try_net: nothing may be reached, so try. */
void probe_init(bool try_net);
/*
 * In PID 1, before the command's process is started. asked: the field EXPECT of the request. False: that is absent or
 * malformed, or PID 1 did not measure itself.
 */
bool must_check probe_prepare(const struct ask_str *asked, int outside_fd);
/*
 * In PID 1, before it makes a copy of itself, or while a process runs that borrows its memory: measure the world, once.
 * Makes plain system calls only and touches nothing but its part of the report.
 */
void probe_rest(void);
/*
 * In that process: measure, compare, send the report. 0: all is as expected, and the command may run; else -errno
 * (-ECANCELED: it must not).
 */
int must_check probe_report(int sock_fd, int outside_fd);

/* ---- parts; what cannot be found out is left 0 ---- */
/* From where a process looks. `text` is for whatever is being read. */
struct probe_view {
	int self_fd; /* its folder in /proc, -1 = there is none */
	char *text;
	size_t room;
	uint32_t fd_slots; /* by probe_task: its descriptors are all below */
};
/* The errno of opening a file of the host (O_PATH) again, 0 = it could be opened; -1 counts as refused with EBADF. */
uint32_t probe_outside(int fd);
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

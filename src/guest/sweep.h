#pragma once
/*
 * Ending all processes of one exec that has no cgroup of its own: PID 1 finds them by descent in
 * /proc, stops them so that they cannot fork on, kills them, and looks again until none is left.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct sweep {
	pid_t guard;      /* its descendants go; 0 = none */
	pid_t tree;       /* this process and its descendants go; 0 = none */
	bool orphans;     /* children of PID 1 that are not in known[] go, with their descendants */
	const pid_t *known; /* PID 1's own children, ascending */
	size_t known_n;
};

struct sweep_proc {
	pid_t pid, ppid;
	char state;
	bool marked;
};

enum sweep_found {
	SWEEP_LEFT,  /* one lives, or not all could be seen */
	SWEEP_QUIET, /* none was seen alive, but one went while we looked: what it forked last may have been missed */
	SWEEP_OVER,  /* none lives */
};

/* One round; bounded work. */
enum sweep_found sweep_round(const struct sweep *s);
/* Pure: mark what s names in v[0..n), which ascends by pid. Returns how many are marked and alive. */
size_t sweep_mark(const struct sweep *s, struct sweep_proc *v, size_t n);
/* Pure: state and parent from the text of /proc/PID/stat. False when it is not of that form. */
bool sweep_parse_stat(const char *text, size_t n, struct sweep_proc *ret);

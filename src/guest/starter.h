#pragma once
/*
 * The starter: a process beside PID 1 that starts commands in leaves. A command borrows the starter's memory until its
 * execve(2), which spares a copy of PID 1's memory for each and the page faults of both sides afterwards; it is PID 1's
 * child all the same. What a user may do to a process of his that borrows memory (stop it, kill it) then happens to
 * the starter and not to PID 1, which at any time starts commands by itself as well.
 */
#include "guest/agent.h"

/*
 * Hand the start of j over; the pid comes through the status pipe (REPORT_PID), and so does a failure. False: there is no
 * starter, it is busy, or this is nothing for it; nothing was done.
 */
bool starter_give(struct agent *a, struct job *j, const struct child *c, int leaf_fd);
/* A command in a leaf was started without it: the next ones should find it. */
void starter_want(struct agent *a);
/* When nothing waits for PID 1: make it, if it is wanted and not there. */
void starter_idle(struct agent *a);
/* A child ended or stopped: one that was stopped is killed. */
void starter_look(const struct agent *a);
/* A child ended; true when it was the starter. */
bool starter_ended(struct agent *a, pid_t pid);
/* End it, and with it what it was given and has not started. */
void starter_kill(const struct agent *a);

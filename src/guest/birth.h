#pragma once
/* A child of PID 1: how it comes to be, and into which cgroup. */
#include "guest/agent.h"
#include "guest/child.h"

/*
 * Clone the child of a job, into leaf_fd's cgroup unless that is -1: its pid, or -errno. j is NULL for the
 * first command of a sandbox, which borrows PID 1's memory until its execve(2). With c->report PID 1 measures
 * itself before this returns (guest/probe.h).
 */
pid_t birth(struct agent *a, const struct job *j, const struct child *c, int leaf_fd);

#pragma once
/* A child of PID 1: how it comes to be, and into which cgroup. */
#include "guest/agent.h"
#include "guest/child.h"

/*
 * Clone the child of a job, into leaf_fd's cgroup unless that is -1: its pid, or -errno. j is NULL for the
 * first command of a sandbox, which borrows PID 1's memory until its execve(2). With c->measure PID 1 measures the
 * world before this returns (guest/probe.h).
 */
pid_t birth(struct agent *a, const struct job *j, const struct child *c, int leaf_fd);
/* What a failed birth (-errno) is to those who asked for it; into_leaf: it was to be in a leaf's cgroup. */
const char *birth_failed(pid_t r, bool into_leaf);
/* The starter (guest/starter.h), a copy of PID 1 in which run(arg) is called and does not return: its pid, or -errno. */
pid_t birth_starter(struct agent *a, void (*run)(const void *arg), const void *arg);
/*
 * For the starter: clone a child of PID 1 into leaf_fd's cgroup, which borrows our memory. Returns its pid once it has
 * given that back, by execve(2) or its end, or -errno.
 */
pid_t birth_sibling(const struct child *c, int leaf_fd);

#pragma once
/* Starting what a request asks for, and steering it afterwards: the real struct agent_ops. */
#include "guest/agent.h"

#define NS_PER_MS UINT64_C(1000000)

/* ---- launch.c ---- */
extern const struct agent_ops launch_ops;

/* ---- ended.c ---- */
/* A child of PID 1 ended. */
void launch_reaped(struct agent *a, pid_t pid, int st, const struct rusage *ru);
/* A job's status pipe has something. */
void launch_status(struct agent *a, struct job *j);
/* Deadlines and sweeps. Returns how long the main loop may sleep, ms; -1 = for ever. */
int launch_tick(struct agent *a);
/* Every process in the sandbox but PID 1. */
void launch_kill_all(int sig);

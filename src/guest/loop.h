#pragma once
/* The agent's main loop. */
#include "guest/agent.h"

/* Serve until the host is gone or asked for the end. sig_fd: a signalfd for SIGCHLD, non-blocking.
 * Returns 0 after SHUTDOWN (every process is gone), -errno when the connection ended in any other way
 * (processes are still there). */
int loop_run(struct agent *a, int sig_fd);

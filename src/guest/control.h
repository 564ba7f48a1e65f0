#pragma once
/* Requests that PID 1 does itself: PORT, CLOCK_SET, RESEED, SHUTDOWN. */
#include "guest/agent.h"

void control_start(struct agent *a, struct job *j, const struct ask *q);
void control_connected(struct agent *a, struct job *j);

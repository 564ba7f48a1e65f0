#pragma once
/*
 * `sudo` inside: PID 1's listener, what it started for whom, and the answers. See wire/sudo.h for what is said.
 * Callers are processes of the sandbox, so all of this is bounded: how many jobs there are at once, how long a request may
 * take to come, how much of a turn of the loop it takes.
 */
#include "guest/agent.h"

/* Start to listen. 0 or -errno. Before anything of the sandbox's runs: the name is free only then. */
int must_check sudo_listen(struct sudo *s);
/* How long the listener is left alone, ms; 0 = it may be polled. */
int sudo_rests(const struct sudo *s);
/* Somebody calls. */
void sudo_accept(struct agent *a);
/* A caller said something or is gone. */
void sudo_heard(struct agent *a, struct job *j);
/* Answer callers whose jobs have ended, and drop them. */
void sudo_settle(struct agent *a);

#pragma once
/* The door of a sandbox's gate (wire/door.h): rules shown and replaced while the sandbox runs. */
#include "base/err.h"
#include "spawn/gate.h"
#include "spawn/inspect.h"

#include <stddef.h>
#include <stdint.h>

struct door; /* the side of whoever holds the gate; it never blocks */

/*
 * Listen for the sandbox `id`. i: the process that reads HTTP for it, NULL = there is none. rules: those the gate has now, copied. rules_fd: NET_RULES of net/net.h, taken over in any
 * case. ERR_DENIED when the state folder cannot be used.
 */
int must_check door_open(const char *id, struct gate *g, struct inspect *i, const char *rules, int rules_fd,
			 struct door **ret, struct err *e);
/* What to poll for reading; -1 = nothing now. */
int door_poll_fd(const struct door *d);
void door_ready(struct door *d);
/* The gate's answer to what was asked of it last. why: KEPT_RULES' words. */
void door_heard(struct door *d, enum gate_heard h, const char *why);
/* Accepts NULL. */
void door_free(struct door *d);

/* The other side. */
struct door_said {
	uint32_t generation;
	char *text; /* SHOW: the rules; the caller's to free */
};
/* Ask and wait. NOT_FOUND: no such sandbox runs with a gate. INVALID: refused; e says why. */
int must_check door_call(const char *id, uint32_t kind, const char *text, size_t n, struct door_said *ret, struct err *e);
/* Take away the door of a sandbox that has ended, if its holder could not. */
void door_remove(const char *id);
/* The ids of sandboxes that have a door, each with a line end; what dead ones left is removed. The caller's to free. */
int must_check door_list(char **ret, struct err *e);

#pragma once
/* Commands that do one thing to each of the sandboxes they are given. */
#include "client/client.h"

/* How many of the operands of argv[1..n] failed decides the exit code: each failure is one line,
 * the others go on. */
int each_run(struct client *c, char **argv, int n,
	     int (*one)(struct client *c, const char *id, void *arg, struct err *e), void *arg,
	     struct err *e);
/* An option that every such command may have and that needs nothing. */
int each_take(void *arg, int id, const char *value, struct err *e);
/* A body that is owned, to a path of a sandbox; 404 becomes "no such sandbox" with the nearest. */
int each_post(struct client *c, const char *id, const char *method, const char *what, json_t *body,
	      struct err *e);

#pragma once
/*
 * What the gates of all sandboxes have refused, in one counter (stats.denied). A keeper counts for its sandbox and says the sum
 * so far, when asked (GET /control/denied) and at the end; here the difference to what it said before is added.
 */
#include "daemon/daemon.h"

/* What a keeper said of a sandbox that lives. Numbers that make no sense are left out. */
void denials_told(struct daemon *d, struct box *b, const json_t *said);
/* It leaves the table, and how it ended is not known yet. */
void denials_leave(struct daemon *d, const struct box *b);
/* How it ended. b: NULL when it left the table before. end: NULL = nobody knows. */
void denials_ended(struct daemon *d, struct box *b, const char *id, const json_t *end);
void denials_close(struct daemon *d);

#pragma once
/* The messages of a process's stream, as text. */
#include "base/buf.h"
#include "session/session.h"

#include <jansson.h>
#include <stdbool.h>

enum { EVENT_DATA_MAX = 32 * 1024, EVENT_TTY_MAX = 16 * 1024 };

/* The data event for at most EVENT_DATA_MAX bytes: an owned string and its length; NULL = no
 * memory. */
char *event_data(const char *channel, const void *p, size_t n, size_t *ret_n);
/* "exit status 3", "signal: killed". r->how is HOW_EXIT or HOW_SIGNAL. */
void event_status(const struct stream_result *r, char *dst, size_t size);
json_t *event_start(uint32_t pid);
json_t *event_end(int exit_code, bool exited, const char *status);
json_t *event_keepalive(void);

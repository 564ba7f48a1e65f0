#pragma once
/*
 * What a child tells PID 1 through its status pipe: fixed-size messages, each written at once (below
 * PIPE_BUF, so never mixed). The pipe is close-on-exec: a command that runs has no end of it.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum report_type {
	REPORT_ERROR = 1, /* the request failed: err, text */
	REPORT_PID = 2,   /* guard, child of the starter: the command's pid */
	REPORT_EXIT = 3,  /* guard: the command ended: status, rusage */
	REPORT_READY = 4, /* worker: from now on it is doing what was asked (watch) */
};

struct report {
	uint32_t type;
	int32_t err;
	int32_t pid;
	int32_t wait_status;
	uint64_t utime_us, stime_us, maxrss_kib;
	char text[256]; /* NUL-terminated */
};

/* False: nobody reads it any more. */
bool report_send(int fd, const struct report *r);
/* REPORT_ERROR with a text of the form "what 'name': reason", cut to size; name may be NULL. */
void report_error(int fd, int err, const char *what, const char *name);
/* 1 and a report, 0: none there yet, -EPIPE: the writers are gone, -EPROTO: not a report. */
int report_read(int fd, struct report *ret);

#pragma once
/* A sandbox of the daemon's list, read and checked. */
#include "base/err.h"

#include <jansson.h>
#include <stdint.h>

struct box_row {
	const char *id, *template, *tier,
	    *state;		    /* borrowed from the JSON; foreign but id; never NULL */
	const char *how;	    /* the same, of one that has ended; else NULL */
	int64_t started_ms;	    /* since 1970; -1 = not told */
	int64_t ends_ms;	    /* -1 = not told, or it does not end by itself */
	int64_t ended_ms;	    /* -1 = it has not */
	json_int_t cpus, memory_mb; /* 0 = not told */
};
/* -EPROTO: it is no sandbox. */
int must_check box_row_read(const json_t *o, struct box_row *ret);

/* A sample of what one uses. */
struct box_use {
	double cpu_pct;
	json_int_t cpus;
	uint64_t mem_used, mem_total, disk_used, disk_total;
};
int must_check box_use_read(const json_t *o, struct box_use *ret);

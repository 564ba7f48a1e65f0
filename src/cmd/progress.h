#pragma once
/* How far copying is, for a person: a line on standard error, from the first second on. */
#include <stdbool.h>
#include <stdint.h>

struct progress {
	bool on;          /* a person looks: standard error is a terminal, and not --quiet */
	const char *what; /* "copying in"; NULL = nothing is under way */
	uint64_t next_ms; /* when the line is due next */
	uint64_t bytes;   /* as last shown */
};

/* Times are CLOCK_MONOTONIC, ms. */
void progress_begin(struct progress *p, const char *what, uint64_t now_ms);
/* How long to sleep at most until the line is due, ms; -1 = for ever. */
int progress_wait(const struct progress *p, uint64_t now_ms);
/* Show the line if it is due. below: as say_status. */
void progress_show(struct progress *p, uint64_t now_ms, uint64_t bytes, bool below);
/* Erase it. */
void progress_end(struct progress *p);

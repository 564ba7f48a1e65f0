#pragma once
/*
 * Records of live sandboxes: one small file per sandbox in $BRIG_STATE/live, else /run/brig/live as
 * root, else $XDG_RUNTIME_DIR/brig/live, else below the state folder; locked (flock(2)) for as
 * long as its caller or its runner lives. A record that nobody holds belongs to a dead sandbox: the
 * next brig kills and removes what it names. The file's number is also the sandbox's slot: it selects
 * the sandbox's range of host user ids, so a range is never used twice while anything of it lives.
 *
 * File: line "brig-record 1", then boot=ID, id=ID, cgroup=PATH per line. A record of an earlier boot
 * names nothing that still exists.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	RECORD_SLOTS = 4096,
	RECORD_ID_BASE = 0x70000000, /* first host id; 4096 * 65536 ids end at 2^31 */
	RECORD_ID_COUNT = 65536,
	RECORD_CGROUPS_MAX = 5,
};

struct record {
	int fd;      /* held lock; -1 = none. Inherited by the runner: both hold it */
	int dir_fd;  /* the folder of records */
	uint32_t slot;
};

/*
 * Open a folder for things of this boot, where "live" is one; made, if `make` says so. The caller's own, or as root
 * anybody's when it is not to be made. -ENOENT when it is not there; else e says why it cannot be used.
 */
int must_check record_folder(const char *name, bool make, int *ret_fd, struct err *e);
/* Claim a free slot for sandbox id. ERR_DENIED when the state folder cannot be used, ERR_LIMITED when
 * every slot is taken. */
int must_check record_claim(const char *id, struct record *ret, struct err *e);
/* Note cgroup paths before they are made. */
int must_check record_note(struct record *r, const char *const *paths, uint32_t n);
/* The sandbox is gone: remove the record and let go. */
void record_drop(struct record *r);
/* Let go without removing (in a process that hands it to another). */
void record_close(struct record *r);
/* Sweep every record nobody holds; waits up to wait_ms, all records together, for what it killed to be gone.
 * Returns how many sandboxes were removed, or -errno. */
int record_sweep(unsigned wait_ms);

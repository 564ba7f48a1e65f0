#pragma once
/*
 * What the settings promise of the walls, as the host sends it with an EXEC that has REQ_FD_MEASURE (field EXPECT),
 * and the comparison of it with a report. Both sides make the same one: the command's process before it runs
 * anything, which stops it, and brig, which takes nobody's word for the result.
 *
 * One structure of fixed size: both ends are x86-64, and of the same version of brig.
 */
#include "wire/probe.h"

enum probe_expect_flag {
	EXPECT_STOP = 1u << 0,	       /* the host itself found a difference: nothing is to be run */
	EXPECT_LANDLOCK = 1u << 1,     /* it should stand */
	EXPECT_OWN_IDS = 1u << 2,      /* the sandbox has a range of host ids of its own */
	EXPECT_NOT_ROOT = 1u << 3,     /* the caller is not the host's root */
	EXPECT_READONLY = 1u << 4,     /* the root file system */
	EXPECT_OVERLAY = 1u << 5,      /* all of it may be written to, in a layer of the sandbox's own */
	EXPECT_FILE_CAPS = 1u << 6,    /* uid 0 keeps the capabilities of files */
	EXPECT_UNREACHABLE = 1u << 7,  /* the addresses; else they are not tried */
	EXPECT_UID = 1u << 8,	       /* the command's user is `uid` */
	EXPECT_PIDS = 1u << 9,	       /* `pids` is the limit of processes, as RLIMIT_NPROC */
	EXPECT_FLAGS = (1u << 10) - 1, /* all there are */
};

struct probe_expect {
	uint32_t version; /* PROBE_VERSION */
	uint32_t flags;
	uint64_t ns[PROBE_NSS];	       /* the host's own, which must be others */
	uint64_t disk, inodes;	       /* at most: bytes, rounded up to pages; files */
	uint32_t uid, pids;
	char release[PROBE_TEXT]; /* of the kernel, up to the room there is */
	char node[PROBE_TEXT], agent[PROBE_TEXT];
};

/* Read one, all of it; p needs no alignment. 0, or -EPROTO: another size or version, an unknown flag, a text
 * without an end. */
int must_check probe_expect_read(const void *p, size_t n, struct probe_expect *ret);

#pragma once
/*
 * How the walls look from inside: what an EXEC with REQ_FD_MEASURE tells before it runs anything.
 *
 * Two descriptors come last with such a request: one end of a SOCK_SEQPACKET pair, and a file of
 * the host (O_PATH), which the sandbox tries to open. PID 1 starts the command's process and
 * measures itself while that one gets ready; the process measures itself where only execve(2) is
 * left to do. With PID 1's half it compares all with what came as EXPECT (wire/probe_expect.h), sends the report as
 * one message, and runs the command when there is no difference, else ends.
 *
 * Both ends are x86-64, so the report is one structure of fixed size, sent up to the last mount
 * that is filled in.
 *
 * The sender is hostile to the host: probe_check is the only reader. It checks that the structure
 * is of this version and well-formed (numbers in range, texts printable and ended, unused room
 * zero); whether the walls are as asked for is probe_compare's to say.
 */
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { PROBE_MAGIC = 0x50524942 /* "BIRP" */, PROBE_VERSION = 4 };

enum probe_call {
#define CALL(id, ...) PROBE_CALL_##id,
#include "wire/probe_calls.def"
#undef CALL
	PROBE_CALLS
};
enum probe_ns {
#define NS(name) PROBE_NS_##name,
#include "wire/probe_facts.def"
#undef NS
	PROBE_NSS
};
enum probe_covered {
#define COVERED(id, name) PROBE_COVERED_##id,
#include "wire/probe_facts.def"
#undef COVERED
	PROBE_COVEREDS
};
enum probe_sealed {
#define SEALED(name) PROBE_SEALED_##name,
#include "wire/probe_facts.def"
#undef SEALED
	PROBE_SEALEDS
};
enum probe_limit {
#define LIMIT(id, ...) PROBE_LIMIT_##id,
#include "wire/probe_facts.def"
#undef LIMIT
	PROBE_LIMITS
};
enum probe_reach {
#define REACH(id, ...) PROBE_REACH_##id,
#include "wire/probe_facts.def"
#undef REACH
	PROBE_REACHES
};

enum probe_cap {
	PROBE_CAP_INH,
	PROBE_CAP_PRM,
	PROBE_CAP_EFF,
	PROBE_CAP_BND,
	PROBE_CAP_AMB,
	PROBE_CAPS
};

/* The state of a path that ought to be covered or sealed. */
enum probe_path { PROBE_ABSENT, PROBE_SHUT, PROBE_OPEN, PROBE_PATHS };

/* How one process of the sandbox stands. `call` and `outside`: the errno met, 0 = it was let
 * through. */
struct probe_task {
	uint64_t caps[PROBE_CAPS];
	uint64_t ns[PROBE_NSS]; /* inode numbers; 0 = the kernel has no such namespace */
	uint32_t pid;
	uint32_t uid[3], gid[3]; /* real, effective, saved */
	uint32_t groups;	 /* how many supplementary ones */
	uint32_t no_new_privs, seccomp_mode, seccomp_filters, securebits;
	uint32_t outside; /* opening a file of the host through a descriptor that was passed in */
	uint16_t call[PROBE_CALLS];
	uint16_t pad[(PROBE_CALLS % 4) == 0 ? 4 : 4 - (PROBE_CALLS % 4)];
	uint32_t pad2;
};

enum {
	PROBE_TEXT = 72,
	PROBE_MOUNTS_MAX = 96,
	PROBE_MAPS_MAX = 4,
	PROBE_IFS_MAX = 4,
	PROBE_UNTRIED = UINT16_MAX, /* no errno */
};

/* What a started command finds. */
struct probe_command {
	struct probe_task task;
	uint32_t pids;	   /* processes /proc shows */
	uint32_t sys_open; /* errno of opening /proc/sys/kernel/core_pattern for writing, 0 = it
			      opened */
	uint32_t fds;	   /* descriptors above 2 that a command would have */
	uint32_t pad2;
	uint64_t soft[PROBE_LIMITS], hard[PROBE_LIMITS];
};

/* What every process in these namespaces finds. */
struct probe_world {
	uint8_t covered[PROBE_COVEREDS]; /* enum probe_path */
	uint8_t sealed[PROBE_SEALEDS];
	uint8_t pad[32 - (PROBE_COVEREDS + PROBE_SEALEDS) % 32];
	uint32_t reach[PROBE_REACHES]; /* errno, 0 = connected or under way, PROBE_UNTRIED */
	uint64_t disk,
	    inodes; /* what fits on the file system of /workspace: bytes, files; 0 = any number */
};

enum probe_mount_flag {
	PROBE_RDONLY = 1,
	PROBE_NOSUID = 2,
	PROBE_NODEV = 4,
	PROBE_NOEXEC = 8,
	PROBE_HIDEPID = 16
};
struct probe_mount {
	char at[PROBE_TEXT];   /* where; a longer one ends in "..." */
	char root[PROBE_TEXT]; /* which part of its file system */
	char type[24];
	uint32_t flags, pad;
};

struct probe_map {
	uint32_t inside, outside, count;
};

struct probe_head {
	uint32_t magic, version;
	uint32_t differences; /* that the process found: not zero = it runs nothing */
	uint32_t pad;
};

struct probe {
	struct probe_head head;
	struct probe_command command; /* by the command's process */
	struct probe_task init;	      /* by PID 1, from here on */
	struct probe_world world;
	uint32_t uid_maps, gid_maps, ifs, mounts; /* how many of the following are filled in */
	struct probe_map uid_map[PROBE_MAPS_MAX], gid_map[PROBE_MAPS_MAX];
	char if_name[PROBE_IFS_MAX][16];
	uint32_t landlock_abi; /* what the kernel offers, 0 = none */
	uint32_t setgroups_denied;
	char release[PROBE_TEXT], machine[PROBE_TEXT], node[PROBE_TEXT]; /* uname(2) */
	char agent[PROBE_TEXT];						 /* its version */
	struct probe_mount mount[PROBE_MOUNTS_MAX];
};

/* How many bytes of it are sent: those before the first mount that is not there. */
static inline size_t probe_size(const struct probe *p)
{
	return offsetof(struct probe, mount) + p->mounts * sizeof(p->mount[0]);
}
/* Is a message of n bytes at p, which has room for the largest, a report? 0 or -EPROTO with what is wrong. Mounts that
 * are not filled in are not looked at. */
int must_check probe_check(const struct probe *p, size_t n, struct err *e);

extern const char *const probe_call_names[PROBE_CALLS];
extern const uint16_t probe_call_wants[PROBE_CALLS];
extern const char *const probe_ns_names[PROBE_NSS];
extern const char *const probe_covered_names[PROBE_COVEREDS];
extern const char *const probe_sealed_names[PROBE_SEALEDS];
extern const char *const probe_reach_names[PROBE_REACHES];
struct probe_limit_row {
	const char *name;
	uint64_t soft, hard;
};
extern const struct probe_limit_row probe_limits[PROBE_LIMITS];

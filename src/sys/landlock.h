#pragma once
/*
 * Landlock (landlock(7)), as far as brig's processes lock themselves in with it. What the running kernel does not
 * know is left out of a rule set, so callers ask for all they want; landlock_abi says what they got.
 *
 * Constants newer than Debian 12's headers are given by value.
 */
#include <stddef.h>
#include <stdint.h>

enum {
	LANDLOCK_EXECUTE = 1u << 0,
	LANDLOCK_WRITE_FILE = 1u << 1,
	LANDLOCK_READ_FILE = 1u << 2,
	LANDLOCK_READ_DIR = 1u << 3,
	LANDLOCK_V1 = (1u << 13) - 1,	  /* all of the first version */
	LANDLOCK_REFER = 1u << 13,	  /* ABI 2: rename and link between folders; before it, never */
	LANDLOCK_TRUNCATE = 1u << 14,	  /* ABI 3 */
	LANDLOCK_IOCTL_DEV = 1u << 15,	  /* ABI 5 */
	LANDLOCK_BIND_TCP = 1u << 0,	  /* net, ABI 4 */
	LANDLOCK_ABSTRACT_UNIX = 1u << 0, /* scope, ABI 6 */
	LANDLOCK_SIGNAL = 1u << 1,	  /* scope, ABI 6 */
};

/* What a rule set refuses unless a rule allows it. */
struct landlock_handled {
	uint64_t fs, net, scope;
};

/* The kernel's version of Landlock, 0 = it has none. */
int landlock_abi(void);
/* The rights over files of `fs` that version knows. */
uint64_t landlock_fs_known(int abi, uint64_t fs);
/* A rule set: a descriptor, or -errno. Nothing is in force yet. */
int landlock_new(int abi, const struct landlock_handled *h);
/* Allow what is at or below parent_fd (O_PATH is enough) these rights, a part of the handled ones. 0 or -errno. */
int landlock_allow(int ruleset_fd, int parent_fd, uint64_t fs);
/* Put it in force for this thread and all it starts; no_new_privs must be set. 0 or -errno. */
int landlock_enforce(int ruleset_fd);

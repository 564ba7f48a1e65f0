#pragma once
/*
 * Folders whose names and contents are foreign: entered by descriptor, one component at a time. No link is followed, and
 * no other mount is entered.
 */
#include "base/err.h"

#include <stddef.h>

enum { TREE_DEPTH_MAX = 140 }; /* folders below each other; a tar's paths have fewer */

struct tree_names { /* of one folder, sorted by their bytes */
	char **v;
	size_t n, cap;
};
#define TREE_NAMES_INIT {.v = NULL}

/* The names in the folder fd, which is not consumed. 0 or -errno; to be freed in either case. */
int must_check tree_names(int fd, struct tree_names *ret);
void tree_names_done(struct tree_names *l);

/* The folder `name` of dirfd, opened even when its mode forbids its owner to. A descriptor of the caller's, or -errno. */
int must_check tree_enter(int dirfd, const char *name);

/* Remove path, which is trusted up to its last name, and if it is a folder everything below it, whatever its modes. What cannot
 * be removed keeps nothing else from going. 0, also when there is none, or the first -errno. */
int must_check tree_remove(int dirfd, const char *path);

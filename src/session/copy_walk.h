#pragma once
/*
 * Walking a host folder for copy_in: folders before what is in them, nothing followed, excluded and
 * ignored entries left out. One open descriptor for each level.
 */
#include "session/copy.h"
#include "wire/pack.h"

#include <sys/stat.h>

enum { WALK_DEPTH_MAX = 256 };

struct walk_rules {
	const char *const *exclude; /* fnmatch(3) patterns; a trailing slash: folders only */
	uint32_t exclude_n;
	bool gitignore; /* honour .gitignore files of the folder and below */
};

/* Does a pattern of `exclude` match the path or its last component `name`? */
bool walk_excluded(const struct walk_rules *rules, const char *path, const char *name, bool is_dir);

struct walk; /* opaque */

struct walk_entry {
	enum pack_type type;
	const char *path; /* relative to the root; valid until the next call, like the rest */
	const char *name; /* its last component */
	int dirfd;        /* the folder it is in, borrowed */
	struct stat st;
	char target[PACK_TARGET_MAX + 1]; /* PACK_LINK, checked by pack_link_ok */
};

/* fd: the root folder, taken over also on failure. rules is borrowed, warn may be NULL. */
int must_check walk_new(int fd, const struct walk_rules *rules, struct copy_warn *warn, struct walk **ret,
			struct err *e);
/* 1 and the next entry (the root itself is not one), 0 at the end, -errno. */
int walk_next(struct walk *w, struct walk_entry *ret, struct err *e);
void walk_free(struct walk *w); /* accepts NULL */

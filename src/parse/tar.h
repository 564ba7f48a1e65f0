#pragma once
/*
 * Tar streams, read strictly: POSIX ustar and pax (POSIX.1-2017, pax, "ustar Interchange Format", "pax
 * Extended Header"), and of GNU tar long names and base-256 numbers. Pure and bounded; every byte may be
 * hostile. The caller cuts the stream into blocks of 512 bytes:
 *
 *   tar_header(block) -> TAR_META    the entry's next `size` bytes (padded to blocks) describe the one
 *                                    that follows: hand them to tar_meta
 *                     -> TAR_ENTRY   an entry; `size` bytes of contents follow, padded to blocks
 *                     -> TAR_END     only zeros may follow
 *                     -> -EINVAL     refused, *why says what is wrong
 */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TAR_BLOCK = 512,
	TAR_META_MAX = 64 * 1024, /* bytes of one extended header or long name */
	TAR_PATH_MAX = 4096,      /* with its end */
	TAR_DEPTH_MAX = 128,      /* components of a path */
};

enum tar_type { TAR_FILE, TAR_DIR, TAR_SYMLINK, TAR_HARDLINK, TAR_SPECIAL /* device node or fifo */ };

struct tar_entry {
	enum tar_type type;
	char path[TAR_PATH_MAX];   /* relative, no "." or ".." component, no empty one; "" = the root itself */
	char target[TAR_PATH_MAX]; /* SYMLINK: any text, not empty; HARDLINK: of the form of path */
	uint32_t mode;             /* 07777 */
	uint32_t uid, gid;
	uint64_t size;             /* FILE; 0 otherwise */
	int64_t mtime;             /* seconds since the epoch, >= 0 */
};

/* State between headers; start it zeroed. */
struct tar {
	bool has_path, has_target, has_size, has_uid, has_gid, has_mtime;
	bool ended;
	char path[TAR_PATH_MAX], target[TAR_PATH_MAX];
	uint64_t size, uid, gid;
	int64_t mtime;
	char meta;        /* type of the extended header being read, 0 = none */
	size_t meta_size;
};

enum tar_what { TAR_END, TAR_ENTRY, TAR_META };
int must_check tar_header(struct tar *t, const uint8_t block[TAR_BLOCK], struct tar_entry *ret, size_t *ret_meta,
			  const char **why);
/* p[n] is the whole contents the last TAR_META announced. 0 or -EINVAL. */
int must_check tar_meta(struct tar *t, const uint8_t *p, size_t n, const char **why);

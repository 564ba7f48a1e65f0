#pragma once
/*
 * The superblock of an EROFS image (linux/fs/erofs/erofs_fs.h, struct erofs_super_block), as far as brig
 * makes such images: blocks of 4 KiB, nothing compressed, one device.
 */
#include "base/err.h"

#include <stdint.h>

enum {
	EROFS_SUPER_AT = 1024,  /* where it lies in the file */
	EROFS_SUPER_SIZE = 128, /* bytes */
	EROFS_BLOCK = 4096,
};

struct erofs_super {
	uint64_t inodes;
	uint32_t blocks; /* of EROFS_BLOCK bytes: the whole file */
	uint32_t root;   /* number of the root's inode */
};

/* file_size: bytes of the whole file. 0, or -EINVAL with *why saying what does not fit. */
int must_check erofs_super_read(const uint8_t p[EROFS_SUPER_SIZE], uint64_t file_size,
				struct erofs_super *ret, const char **why);

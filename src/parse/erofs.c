#include "parse/erofs.h"
/*
 * What mkfs.erofs wrote inside a sandbox is hostile: here it is read once, at fixed places, and every
 * number is compared with the file's own size before anybody relies on it.
 */
#include <errno.h>
#include <stddef.h>

#define EROFS_MAGIC 0xe0f5e1e2u

enum {
	AT_MAGIC = 0,
	AT_BLOCK_BITS = 12,
	AT_EXT_SLOTS = 13,
	AT_ROOT = 14,
	AT_INODES = 16,
	AT_BLOCKS = 36,
	AT_META = 40,
	AT_INCOMPAT = 80, /* features a reader must know; the compressed and chunked forms are such */
	AT_ALGORITHMS = 84,
	AT_DEVICES = 86,
	BLOCK_BITS = 12,
	INODE_UNIT = 32, /* inode numbers count these from the start of the metadata */
};

static uint64_t le(const uint8_t *p, size_t n)
{
	uint64_t v = 0;

	while (n-- > 0)
		v = v << 8 | p[n];
	return v;
}

int erofs_super_read(const uint8_t p[EROFS_SUPER_SIZE], uint64_t file_size,
		     struct erofs_super *ret, const char **why)
{
	uint64_t blocks = le(p + AT_BLOCKS, 4), meta = le(p + AT_META, 4), root = le(p + AT_ROOT, 2);

	*why = NULL;
	if (le(p + AT_MAGIC, 4) != EROFS_MAGIC)
		*why = "no EROFS superblock";
	else if (p[AT_BLOCK_BITS] != BLOCK_BITS)
		*why = "blocks of 4 KiB are needed";
	else if (p[AT_EXT_SLOTS] != 0 || le(p + AT_INCOMPAT, 4) != 0 || le(p + AT_ALGORITHMS, 2) != 0 ||
		 le(p + AT_DEVICES, 2) != 0)
		*why = "it is compressed, or has features that are not asked for";
	else if (blocks == 0 || blocks * EROFS_BLOCK != file_size)
		*why = "its size is not what its superblock says";
	else if (meta >= blocks || meta * EROFS_BLOCK + (root + 1) * INODE_UNIT > file_size)
		*why = "the root lies outside";
	else if (le(p + AT_INODES, 8) == 0 || le(p + AT_INODES, 8) > file_size / INODE_UNIT)
		*why = "more inodes than there is room for";
	if (*why != NULL)
		return -EINVAL;
	*ret = (struct erofs_super){le(p + AT_INODES, 8), (uint32_t)blocks, (uint32_t)root};
	return 0;
}

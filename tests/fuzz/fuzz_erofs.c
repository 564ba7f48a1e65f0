/* The reader of EROFS superblocks: 8 bytes of file size, then the superblock, zeros where it is short. */
#include "base/num.h"
#include "parse/erofs.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	uint8_t sb[EROFS_SUPER_SIZE] = {0};
	struct erofs_super s;
	const char *why;
	uint64_t size;

	if (n < sizeof(size))
		return 0;
	memcpy(&size, p, sizeof(size));
	memcpy(sb, p + sizeof(size), MIN(n - sizeof(size), sizeof(sb)));
	if (erofs_super_read(sb, size, &s, &why) < 0) {
		if (why == NULL)
			abort();
		return 0;
	}
	if ((uint64_t)s.blocks * EROFS_BLOCK != size || s.inodes == 0 || s.root * 32ULL > size)
		abort();
	return 0;
}

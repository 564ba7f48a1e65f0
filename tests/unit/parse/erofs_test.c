#include "harness/test.h"
#include "parse/erofs.h"

#include <errno.h>
#include <string.h>

static uint8_t sb[EROFS_SUPER_SIZE];
static struct erofs_super s;
static const char *why;

/* Three blocks, two inodes, the root is number 36: as mkfs.erofs 1.5 makes a small one. */
static void fresh(void)
{
	static const uint8_t magic[] = {0xe2, 0xe1, 0xf5, 0xe0};

	memset(sb, 0, sizeof(sb));
	memcpy(sb, magic, sizeof(magic));
	sb[8] = 3; /* compatible features: none matters */
	sb[12] = 12;
	sb[14] = 36;
	sb[16] = 2;
	sb[36] = 3;
}

static int with(size_t at, uint8_t v)
{
	fresh();
	sb[at] = v;
	return erofs_super_read(sb, 3 * EROFS_BLOCK, &s, &why);
}

TEST(a_good_one)
{
	fresh();
	CHECK(erofs_super_read(sb, 3 * EROFS_BLOCK, &s, &why) == 0);
	CHECK(s.blocks == 3 && s.inodes == 2 && s.root == 36);
	CHECK(with(40, 2) == 0); /* metadata in the last block */
}

TEST(what_is_refused)
{
	CHECK(with(0, 0) == -EINVAL && strstr(why, "superblock") != NULL);
	CHECK(with(12, 9) == -EINVAL && strstr(why, "4 KiB") != NULL);
	CHECK(with(12, 13) == -EINVAL);
	CHECK(with(13, 1) == -EINVAL && with(80, 1) == -EINVAL && with(83, 0x80) == -EINVAL);
	CHECK(with(84, 1) == -EINVAL && with(86, 1) == -EINVAL && strstr(why, "compressed") != NULL);
	CHECK(with(36, 0) == -EINVAL && with(36, 4) == -EINVAL && with(39, 0x80) == -EINVAL);
	CHECK(strstr(why, "size") != NULL);
	CHECK(with(40, 3) == -EINVAL && strstr(why, "root") != NULL);
	CHECK(with(15, 0xff) == -EINVAL && with(43, 0xff) == -EINVAL);
	CHECK(with(16, 0) == -EINVAL && with(23, 1) == -EINVAL && strstr(why, "inodes") != NULL);
}

TEST(a_file_of_another_size)
{
	fresh();
	CHECK(erofs_super_read(sb, 3 * EROFS_BLOCK - 1, &s, &why) == -EINVAL);
	CHECK(erofs_super_read(sb, 3 * EROFS_BLOCK + 1, &s, &why) == -EINVAL);
	CHECK(erofs_super_read(sb, 0, &s, &why) == -EINVAL);
	CHECK(erofs_super_read(sb, UINT64_MAX, &s, &why) == -EINVAL);
}

TEST_MAIN()

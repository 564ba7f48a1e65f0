#include "fuzz/tar_fix.h"
#include "harness/test.h"
#include "parse/tar.h"

#include <errno.h>
#include <string.h>

static struct tar in;
static struct tar_entry e;
static const char *why;
static uint8_t b[TAR_BLOCK];
static size_t meta;

/* A plain header; fields are then changed by the tests. */
static void block(char type, const char *name, const char *link, const char *size)
{
	memset(b, 0, sizeof(b));
	memcpy(b, name, strlen(name));
	memcpy(b + 100, "0000644", 8);
	memcpy(b + 108, "0000000", 8);
	memcpy(b + 116, "0000000", 8);
	memcpy(b + 124, size, strlen(size));
	memcpy(b + 136, "00000000017", 12);
	b[156] = (uint8_t)type;
	memcpy(b + 157, link, strlen(link));
	memcpy(b + 257, "ustar\00000", 8);
}

static int read_fresh(void)
{
	static const struct tar fresh;

	in = fresh;
	why = NULL;
	tar_fix(b);
	return tar_header(&in, b, &e, &meta, &why);
}

static bool refused(const char *what)
{
	int r = read_fresh();

	if (r != -EINVAL || why == NULL || strstr(why, what) == NULL) {
		printf("# %d %s\n", r, why != NULL ? why : "-");
		return false;
	}
	return true;
}

static int next(void)
{
	tar_fix(b);
	return tar_header(&in, b, &e, &meta, &why);
}

TEST(plain_entries)
{
	block('0', "./a/b", "", "00000000012");
	CHECK(read_fresh() == TAR_ENTRY);
	CHECK(e.type == TAR_FILE && strcmp(e.path, "a/b") == 0 && e.size == 10 && e.mode == 0644 &&
	      e.mtime == 15);
	block('5', "./", "", "0");
	CHECK(read_fresh() == TAR_ENTRY && e.type == TAR_DIR && e.path[0] == '\0');
	block('5', "a/", "", "0");
	CHECK(read_fresh() == TAR_ENTRY && strcmp(e.path, "a") == 0);
	block('2', "l", "../../etc/passwd", "0");
	CHECK(read_fresh() == TAR_ENTRY && e.type == TAR_SYMLINK &&
	      strcmp(e.target, "../../etc/passwd") == 0);
	block('1', "h", "./a/b", "0");
	CHECK(read_fresh() == TAR_ENTRY && e.type == TAR_HARDLINK && strcmp(e.target, "a/b") == 0);
	for (const char *c = "346"; *c != '\0'; c++) {
		block(*c, "n", "", "0");
		CHECK(read_fresh() == TAR_ENTRY && e.type == TAR_SPECIAL);
	}
}

TEST(the_prefix_of_ustar_comes_first)
{
	block('0', "name", "", "0");
	memcpy(b + 345, "some/where", 10);
	CHECK(read_fresh() == TAR_ENTRY && strcmp(e.path, "some/where/name") == 0);
	memcpy(b + 257, "ustar  ", 8); /* GNU's header has other fields there */
	CHECK(read_fresh() == TAR_ENTRY && strcmp(e.path, "name") == 0);
}

TEST(paths_that_lead_elsewhere)
{
	static const struct {
		const char *path, *why;
	} rows[] = {{"/etc/x", "absolute"},   {"..", "'..'"},
		    {"a/../b", "'..'"},	      {"a//b", "empty path component"},
		    {"", "empty path"},	      {"a/..", "'..'"},
		    {"a//", "closing slash"}, {".", "root that is no folder"}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		block('0', rows[i].path, "", "0");
		CHECK(refused(rows[i].why));
	}
	block('0', "a/", "", "0");
	CHECK(refused("closing slash"));
	block('1', "h", "../x", "0");
	CHECK(refused("'..'"));
	block('1', "h", "/x", "0");
	CHECK(refused("absolute"));
	block('1', "h", "", "0");
	CHECK(refused("without a target"));
	block('1', "h", ".", "0");
	CHECK(refused("hard link to the root"));
	block('2', "l", "", "0");
	CHECK(refused("without a target"));
}

TEST(numbers)
{
	block('0', "f", "", "00000000019");
	CHECK(refused("number"));
	block('0', "f", "", "-0000000001");
	CHECK(refused("number"));
	block('0', "f", "", "1 2");
	CHECK(refused("number"));
	block('0', "f", "", "");
	b[124] = 0x80; /* GNU base 256 */
	b[131] = 1;
	CHECK(read_fresh() == TAR_ENTRY && e.size == (UINT64_C(1) << 32));
	b[126] = 1; /* 2^72 */
	CHECK(refused("number"));
	memset(b + 124, 0xff, 12); /* -1 */
	CHECK(refused("number"));
	block('0', "f", "", "0");
	memcpy(b + 108, "\x80\0\0\1\0\0\0\0", 8);
	CHECK(refused("owner"));
	block('5', "d", "", "1");
	CHECK(refused("contents for something that is no file"));
	block('1', "h", "f", "1");
	CHECK(refused("contents for something that is no file"));
}

TEST(checksum_types_and_the_end)
{
	static const struct tar fresh;

	block('0', "f", "", "0");
	tar_fix(b);
	b[0] ^= 1;
	in = fresh;
	CHECK(tar_header(&in, b, &e, &meta, &why) == -EINVAL && strstr(why, "checksum") != NULL);
	for (const char *c = "SMVDNZa"; *c != '\0'; c++) {
		block(*c, "f", "", "0");
		CHECK(refused(*c == 'S' ? "sparse" : "unknown type"));
	}
	memset(b, 0, sizeof(b));
	CHECK(read_fresh() == TAR_END && in.ended);
	CHECK(next() == TAR_END);
	block('0', "f", "", "0");
	CHECK(next() == -EINVAL && strstr(why, "after the end") != NULL);
}

/* One extended header with these records, then a plain file: what came of it. */
static int with_pax(char type, const char *records, size_t n)
{
	char size[12];
	int r;

	(void)snprintf(size, sizeof(size), "%011zo", n);
	block(type, "pax", "", size);
	r = read_fresh();
	if (r != TAR_META || meta != n)
		return -1000;
	r = tar_meta(&in, (const uint8_t *)records, n, &why);
	if (r < 0)
		return r;
	block('0', "plain", "", "00000000012");
	return next();
}
#define PAX(text) with_pax('x', text, sizeof(text) - 1)

TEST(extended_headers)
{
	CHECK(PAX("15 path=a/b/cd\n") == TAR_ENTRY && strcmp(e.path, "a/b/cd") == 0 &&
	      e.size == 10);
	block('0', "plain", "", "0");
	CHECK(next() == TAR_ENTRY && strcmp(e.path, "plain") == 0); /* for one entry only */
	CHECK(PAX("9 size=5\n12 uid=1234\n16 mtime=77.123\n") == TAR_ENTRY && e.size == 5 &&
	      e.uid == 1234 && e.mtime == 77);
	CHECK(PAX("31 SCHILY.xattr.user.x=ab\ncdef\n") == TAR_ENTRY);
	CHECK(with_pax('g', "13 comment=x\n", 13) == TAR_ENTRY);
	CHECK(with_pax('L', "long/name", 10) == TAR_ENTRY && strcmp(e.path, "long/name") == 0);
}

TEST(extended_headers_refused)
{
	CHECK(PAX("10 path=/x\n") == -EINVAL); /* a lying length */
	CHECK(PAX("11 path=/x\n") == -EINVAL); /* absolute */
	CHECK(PAX("13 path=a/..\n") == -EINVAL);
	CHECK(PAX("8 path=\n") == -EINVAL);
	CHECK(PAX("10 path=a\n10 path=b\n") == -EINVAL); /* which one? */
	CHECK(with_pax('x', "11 path=a\0b\n", 12) == -EINVAL);
	CHECK(with_pax('x', "12 path=a\0b\n", 12) == -EINVAL); /* NUL */
	CHECK(PAX("11 size=5.5\n12 size=5.5\n") == -EINVAL);
	CHECK(PAX("12 size=5.5\n") == -EINVAL);
	CHECK(PAX("11 size=5.5\n") == -EINVAL);
	CHECK(PAX("10 size=-5\n") == -EINVAL);
	CHECK(PAX("28 size=9223372036854775808\n") == -EINVAL);
	CHECK(PAX("18 uid=4294967296\n") == -EINVAL);
	CHECK(PAX("12 mtime=-5\n") == -EINVAL);
	CHECK(PAX("14 mtime=5.x\n") == -EINVAL && PAX("13 mtime=5.x\n") == -EINVAL);
	CHECK(PAX("22 GNU.sparse.major=1\n") == -EINVAL);
	CHECK(PAX("9.0 uid=5\n") == -EINVAL);
	CHECK(PAX("99 uid=5\n") == -EINVAL && PAX("3 \n") == -EINVAL && PAX("x") == -EINVAL &&
	      PAX("6 =aa\n") == -EINVAL);
	CHECK(PAX("14 linkpath=x\n") == -EINVAL); /* for a file */
	CHECK(with_pax('g', "11 path=abc\n", 12) == -EINVAL &&
	      with_pax('g', "12 path=abc\n", 12) == -EINVAL);
}

TEST(extended_headers_are_bounded)
{
	block('x', "pax", "", "0");
	CHECK(refused("extended header"));
	block('x', "pax", "", "00000200001"); /* 64 KiB and 1 */
	CHECK(refused("extended header"));
	block('x', "pax", "", "11");
	CHECK(read_fresh() == TAR_META &&
	      next() == -EINVAL); /* the contents were not handed over */
	CHECK(PAX("11 path=abc\n") == -EINVAL);
	CHECK(PAX("12 path=abc\n") == TAR_ENTRY);
	block('x', "pax", "", "14");
	CHECK(read_fresh() == TAR_META &&
	      tar_meta(&in, (const uint8_t *)"12 path=abc\n", 12, &why) == 0);
	memset(b, 0, sizeof(b));
	CHECK(next() == -EINVAL && strstr(why, "without an entry") != NULL);
}

TEST_MAIN()

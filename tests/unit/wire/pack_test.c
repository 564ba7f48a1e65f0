#include "wire/pack.h"

#include "base/num.h"
#include "harness/test.h"

#include <errno.h>
#include <string.h>

static struct pack_entry entry;

static const struct pack_entry *make(enum pack_type type, const char *path, const char *target,
				     uint64_t size)
{
	memset(&entry, 0, sizeof(entry));
	entry.type = type;
	entry.mode = 0644;
	entry.size = size;
	(void)snprintf(entry.path, sizeof(entry.path), "%s", path);
	(void)snprintf(entry.target, sizeof(entry.target), "%s", target);
	return &entry;
}

/* An entry as a hostile packer would write it. */
static void put_raw(struct buf *b, uint8_t type, uint16_t mode, const char *path, size_t path_len,
		    const char *target, size_t target_len, uint64_t size)
{
	uint8_t h[32] = {type};

	store_le16(h + 2, mode);
	store_le32(h + 4, (uint32_t)path_len);
	store_le32(h + 8, (uint32_t)target_len);
	store_le64(h + 16, size);
	if (buf_put(b, h, 32) < 0 || buf_put(b, path, path_len) < 0 ||
	    buf_put(b, target, target_len) < 0)
		abort();
}

/* The events of a stream as letters, fed `step` bytes at a time. */
static const char *events(const struct buf *b, size_t step)
{
	static char out[4096];
	struct pack_decoder *d = malloc(sizeof(*d));
	const uint8_t *data;
	uint64_t len, run = 0;
	size_t n = 0;
	int ev = 0;

	if (d == NULL)
		abort();
	pack_decoder_init(d);
	for (size_t at = 0; at < b->len && ev >= 0; at += step) {
		if (pack_feed(d, buf_head(b) + at, MIN(step, b->len - at)) < 0)
			abort();
		while ((ev = pack_next(d, &data, &len)) > 0) {
			if (ev == PACK_EV_DATA) {
				run += len;
				continue;
			}
			if (run > 0)
				n += (size_t)snprintf(out + n, sizeof(out) - n, "D%llu ",
						      (unsigned long long)run);
			run = 0;
			if (ev == PACK_EV_ENTRY)
				n += (size_t)snprintf(out + n, sizeof(out) - n, "%c:%s ",
						      "?dfl"[d->entry.type], d->entry.path);
			else if (ev == PACK_EV_HOLE)
				n += (size_t)snprintf(out + n, sizeof(out) - n, "H%llu ",
						      (unsigned long long)len);
			else
				n += (size_t)snprintf(out + n, sizeof(out) - n, "%s ",
						      ev == PACK_EV_END ? "END" : ".");
		}
	}
	if (ev < 0)
		n += (size_t)snprintf(out + n, sizeof(out) - n, "BAD");
	else if (!pack_complete(d))
		n += (size_t)snprintf(out + n, sizeof(out) - n, "CUT");
	if (ev < 0 && pack_next(d, &data, &len) != -EPROTO) /* an error is final */
		n += (size_t)snprintf(out + n, sizeof(out) - n, "!");
	out[n] = '\0';
	pack_decoder_done(d);
	free(d);
	return out;
}

TEST(a_tree_round_trips_whatever_the_pieces)
{
	struct buf b = {.max = 1u << 20};
	static uint8_t data[5000];
	static const size_t steps[] = {1, 7, 100, 4096, 1u << 17};

	CHECK(pack_put_start(&b) == 0 && pack_put_entry(&b, make(PACK_DIR, "", "", 0)) == 0);
	CHECK(pack_put_entry(&b, make(PACK_FILE, "a", "", 10000)) == 0);
	CHECK(pack_put_data(&b, data, 5000) == 0 && pack_put_hole(&b, 4990) == 0);
	CHECK(pack_put_data(&b, data, 10) == 0 && pack_put_file_end(&b) == 0);
	CHECK(pack_put_entry(&b, make(PACK_LINK, "d/l", "../a", 0)) == 0);
	CHECK(pack_put_entry(&b, make(PACK_FILE, "e", "", 0)) == 0 && pack_put_file_end(&b) == 0);
	CHECK(pack_put_end(&b) == 0);
	for (size_t i = 0; i < ARRAY_LEN(steps); i++)
		CHECK(strcmp(events(&b, steps[i]), "d: f:a D5000 H4990 D10 . l:d/l f:e . END ") == 0);
	CHECK(buf_put(&b, "x", 1) == 0);
	CHECK(strcmp(events(&b, 4096), "d: f:a D5000 H4990 D10 . l:d/l f:e . END BAD") == 0);
	buf_done(&b);
}

static const char *one(uint8_t type, uint16_t mode, const char *path, size_t path_len,
		       const char *target, size_t target_len, uint64_t size)
{
	struct buf b = {.max = 1u << 20};
	const char *r;

	if (pack_put_start(&b) < 0)
		abort();
	put_raw(&b, type, mode, path, path_len, target, target_len, size);
	r = events(&b, 4096);
	buf_done(&b);
	return r;
}
#define PATH(s) one(PACK_DIR, 0755, s, sizeof(s) - 1, "", 0, 0)

TEST(only_plain_relative_paths_pass)
{
	static char deep[2 * PACK_DEPTH_MAX + 2], name[257];

	CHECK(strcmp(PATH("a/b..c/.d"), "d:a/b..c/.d CUT") == 0);
	CHECK(strcmp(PATH("new\nline\033"), "d:new\nline\033 CUT") == 0);
	CHECK(strcmp(PATH("/a"), "BAD") == 0 && strcmp(PATH("a/"), "BAD") == 0);
	CHECK(strcmp(PATH("a//b"), "BAD") == 0 && strcmp(PATH("."), "BAD") == 0);
	CHECK(strcmp(PATH(".."), "BAD") == 0 && strcmp(PATH("a/../b"), "BAD") == 0);
	CHECK(strcmp(PATH("../a"), "BAD") == 0 && strcmp(PATH("a/.."), "BAD") == 0);
	CHECK(strcmp(PATH("a/./b"), "BAD") == 0 && strcmp(PATH("a\0b"), "BAD") == 0);
	for (size_t i = 0; i < sizeof(deep) - 1; i++)
		deep[i] = i % 2 == 0 ? 'a' : '/';
	CHECK(pack_path_ok(deep, 2 * PACK_DEPTH_MAX - 1));
	CHECK(!pack_path_ok(deep, 2 * PACK_DEPTH_MAX + 1));
	memset(name, 'n', 256);
	CHECK(pack_path_ok(name, 255) && !pack_path_ok(name, 256));
	CHECK(pack_path_ok("", 0));
}

TEST(fields_out_of_range_are_refused)
{
	CHECK(strcmp(one(PACK_FILE, 0755, "a", 1, "", 0, 5), "f:a CUT") == 0);
	CHECK(strcmp(one(PACK_FILE, 04755, "a", 1, "", 0, 5), "BAD") == 0); /* setuid */
	CHECK(strcmp(one(PACK_FILE, 02755, "a", 1, "", 0, 5), "BAD") == 0);
	CHECK(strcmp(one(PACK_DIR, 01777, "a", 1, "", 0, 0), "BAD") == 0);
	CHECK(strcmp(one(4, 0755, "a", 1, "", 0, 0), "BAD") == 0);
	CHECK(strcmp(one(PACK_FILE, 0755, "a", 1, "t", 1, 0), "BAD") == 0);
	CHECK(strcmp(one(PACK_LINK, 0755, "a", 1, "", 0, 0), "BAD") == 0);
	CHECK(strcmp(one(PACK_LINK, 0755, "a", 1, "t\0u", 3, 0), "BAD") == 0);
	CHECK(strcmp(one(PACK_LINK, 0755, "a", 1, "t", 1, 1), "BAD") == 0);
	CHECK(strcmp(one(PACK_DIR, 0755, "a", 1, "", 0, 1), "BAD") == 0);
	CHECK(strcmp(one(PACK_FILE, 0755, "a", 1, "", 0, UINT64_MAX), "BAD") == 0);
	CHECK(strcmp(one(PACK_END, 0, "a", 1, "", 0, 0), "BAD") == 0);
}

TEST(a_length_is_refused_before_its_bytes_come)
{
	struct buf b = {.max = 4096};
	uint8_t h[32] = {PACK_FILE};

	store_le32(h + 4, PACK_PATH_MAX + 1);
	CHECK(pack_put_start(&b) == 0 && buf_put(&b, h, 32) == 0);
	CHECK(strcmp(events(&b, 4096), "BAD") == 0);
	buf_done(&b);
	store_le32(h + 4, UINT32_MAX);
	CHECK(pack_put_start(&b) == 0 && buf_put(&b, h, 32) == 0);
	CHECK(strcmp(events(&b, 4096), "BAD") == 0);
	buf_done(&b);
}

static const char *chunk(uint64_t size, const void *p, size_t n)
{
	struct buf b = {.max = 1u << 20};
	const char *r;

	if (pack_put_start(&b) < 0 || pack_put_entry(&b, make(PACK_FILE, "", "", size)) < 0 ||
	    buf_put(&b, p, n) < 0)
		abort();
	r = events(&b, 4096);
	buf_done(&b);
	return r;
}

TEST(data_never_passes_the_announced_size)
{
	uint8_t h[12];

	CHECK(strcmp(chunk(3, "\3\0\0\0abc\0\0\0\0", 11), "f: D3 . CUT") == 0);
	CHECK(strcmp(chunk(9, "\3\0\0\0abc\0\0\0\0", 11), "f: D3 . CUT") == 0); /* it shrank */
	CHECK(strcmp(chunk(2, "\3\0\0\0abc", 7), "f: BAD") == 0);
	CHECK(strcmp(chunk(3, "\2\0\0\0ab\2\0\0\0cd", 12), "f: BAD") == 0);
	store_le32(h, PACK_HOLE);
	store_le64(h + 4, 10);
	CHECK(strcmp(chunk(10, h, 12), "f: H10 CUT") == 0 && strcmp(chunk(9, h, 12), "f: BAD") == 0);
	store_le64(h + 4, 0);
	CHECK(strcmp(chunk(9, h, 12), "f: BAD") == 0);
	store_le64(h + 4, UINT64_MAX);
	CHECK(strcmp(chunk(INT64_MAX, h, 12), "f: BAD") == 0);
	store_le32(h, PACK_HOLE | 1);
	CHECK(strcmp(chunk(INT64_MAX, h, 12), "f: BAD") == 0);
	store_le32(h, PACK_CHUNK_MAX + 1);
	CHECK(strcmp(chunk(INT64_MAX, h, 4), "f: BAD") == 0);
}

TEST(what_is_no_pack_stream)
{
	struct buf b = {.max = 4096};

	CHECK(buf_put(&b, "BRGPACK2", 8) == 0 && strcmp(events(&b, 4096), "BAD") == 0);
	buf_done(&b);
	CHECK(buf_put(&b, "BRG", 3) == 0 && strcmp(events(&b, 4096), "CUT") == 0);
	buf_done(&b);
	CHECK(strcmp(events(&b, 4096), "CUT") == 0);
}

TEST(the_writer_refuses_what_the_reader_would)
{
	struct buf b = {.max = 64};
	struct pack_entry *e = &entry;

	CHECK(pack_put_entry(&b, make(PACK_FILE, "../a", "", 0)) == -EINVAL);
	CHECK(pack_put_entry(&b, make(PACK_LINK, "a", "", 0)) == -EINVAL);
	CHECK(pack_put_entry(&b, make(PACK_DIR, "a", "", 1)) == -EINVAL);
	CHECK(pack_put_entry(&b, make(PACK_END, "", "", 0)) == -EINVAL);
	(void)make(PACK_FILE, "a", "", 0);
	e->mode = 04755;
	CHECK(pack_put_entry(&b, e) == -EINVAL);
	CHECK(pack_put_data(&b, "", 0) == -EINVAL && pack_put_hole(&b, 0) == -EINVAL);
	CHECK(b.len == 0);
	CHECK(pack_put_entry(&b, make(PACK_FILE, "0123456789012345678901234567890123456789", "", 0)) ==
	      -ENOBUFS);
	buf_done(&b);
}

TEST(which_links_stay_inside)
{
	CHECK(pack_link_ok("l", "a") && pack_link_ok("l", "a/b") && pack_link_ok("l", "."));
	CHECK(pack_link_ok("d/l", "../a") && pack_link_ok("d/e/l", "../../a/b"));
	CHECK(pack_link_ok("d/l", "./../a") && pack_link_ok("l", "..a") && pack_link_ok("l", "a/...b"));
	CHECK(!pack_link_ok("l", "..") && !pack_link_ok("l", "../a") && !pack_link_ok("d/l", "../.."));
	CHECK(!pack_link_ok("l", "/etc") && !pack_link_ok("l", "//x") && !pack_link_ok("l", ""));
	/* "a" may itself be a link to a folder less deep than it looks */
	CHECK(!pack_link_ok("d/l", "a/../b") && !pack_link_ok("d/l", "a/.."));
	CHECK(!pack_link_ok("", "a")); /* the root is no link */
}
TEST_MAIN()

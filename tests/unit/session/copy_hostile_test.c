#include "base/cleanup.h"
#include "base/num.h"
#include "harness/test.h"
#include "session/copy_out.h"
#include "unit/session/tree.h"
#include "wire/pack.h"

#include <dirent.h>

/* Pack streams no honest agent makes, unpacked onto the host. */

static struct buf stream = {.max = 8u << 20};
static struct pack_entry entry;

static void start(void)
{
	buf_done(&stream);
	if (pack_put_start(&stream) < 0)
		abort();
}
static void put(enum pack_type type, const char *path, const char *target, const char *data)
{
	memset(&entry, 0, sizeof(entry));
	entry.type = type;
	entry.mode = 0755;
	entry.size = strlen(data);
	(void)snprintf(entry.path, sizeof(entry.path), "%s", path);
	(void)snprintf(entry.target, sizeof(entry.target), "%s", target);
	if (pack_put_entry(&stream, &entry) < 0)
		abort();
	if (type != PACK_FILE)
		return;
	if ((data[0] != '\0' && pack_put_data(&stream, data, strlen(data)) < 0) ||
	    pack_put_file_end(&stream) < 0)
		abort();
}
static int unpack_with(const struct copy_out_opts *o, struct err *e)
{
	struct copy_out *c = NULL;
	int r = copy_out_new(o, &c, e);

	/* in odd pieces, as a socket would bring them */
	for (size_t at = 0; r == 0 && at < stream.len; at += 1000)
		r = copy_out_feed(c, buf_head(&stream) + at, MIN(stream.len - at, (size_t)1000), e);
	if (r == 0)
		r = copy_out_finish(c, e);
	copy_out_free(c);
	return r;
}
static int unpack(struct err *e)
{
	if (pack_put_end(&stream) < 0)
		abort();
	return unpack_with(&(struct copy_out_opts){.dst = "dst",
						   .name = "name",
						   .max_bytes = 1000,
						   .max_apparent = 2000,
						   .max_entries = 20,
						   .max_folders = 20},
			   e);
}
static bool exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}
/* No hidden temporary file stayed behind. */
static bool clean(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *x;
	bool ok = true;

	while (d != NULL && (x = readdir(d)) != NULL)
		ok = ok && strncmp(x->d_name, ".brig-", 6) != 0;
	if (d != NULL)
		(void)closedir(d);
	return ok;
}

TEST(writing_through_a_link_of_the_same_stream)
{
	struct tree t;
	struct err e = ERR_INIT;

	CHECK(tree_new(&t));
	tree_dir(&t, "outside");
	start();
	put(PACK_DIR, "", "", "");
	put(PACK_DIR, "real", "", "");
	put(PACK_LINK, "a", "real", ""); /* stays inside, so it is made */
	put(PACK_FILE, "a/x", "", "data");
	CHECK(unpack(&e) == -ELOOP && e.kind == ERR_DENIED);
	CHECK(exists("dst/a") && !exists("dst/real/x") && clean("dst/real"));
	start();
	put(PACK_DIR, "", "", "");
	put(PACK_LINK, "out", "../outside", ""); /* left out */
	put(PACK_FILE, "out/x", "", "data");
	CHECK(unpack(&e) == -ENOENT && !exists("outside/x") && !exists("dst/out"));
	start();
	put(PACK_DIR, "", "", "");
	put(PACK_LINK, "abs", "/etc", "");
	put(PACK_DIR, "abs/sub", "", "");
	CHECK(unpack(&e) == -ENOENT && !exists("dst/abs"));
	tree_done(&t);
}

TEST(writing_through_a_link_of_the_host)
{
	struct tree t;
	struct err e = ERR_INIT;

	CHECK(tree_new(&t));
	tree_dir(&t, "outside");
	tree_file(&t, "file", "keep", 0644);
	tree_dir(&t, "dst");
	tree_link(&t, "dst/ln", "../outside");
	tree_link(&t, "dst/fl", "../file");
	start();
	put(PACK_DIR, "", "", "");
	put(PACK_DIR, "ln", "", "");
	CHECK(unpack(&e) == -ELOOP || e.errnum == ENOTDIR);
	start();
	put(PACK_DIR, "", "", "");
	put(PACK_FILE, "ln/x", "", "data");
	CHECK(unpack(&e) == -ELOOP && !exists("outside/x"));
	start();
	put(PACK_DIR, "", "", "");
	put(PACK_FILE, "fl", "", "data"); /* the link is replaced, its target is not touched */
	CHECK(unpack(&e) == 0 && tree_is(&t, "file", "keep") && tree_is(&t, "dst/fl", "data"));
	tree_done(&t);
}

TEST(a_folder_swapped_for_a_link)
{
	struct tree t;
	struct err e = ERR_INIT;

	CHECK(tree_new(&t));
	start();
	put(PACK_DIR, "", "", "");
	put(PACK_DIR, "d", "", "");
	put(PACK_DIR, "e", "", "");
	put(PACK_FILE, "d/x", "", "1");
	put(PACK_LINK, "d", "e", "");
	CHECK(unpack(&e) < 0 && !exists("dst/e/x") && tree_is(&t, "dst/d/x", "1") && clean("dst"));
	start();
	put(PACK_DIR, "", "", "");
	put(PACK_FILE, "d", "", "file over folder");
	CHECK(unpack(&e) < 0 && tree_is(&t, "dst/d/x", "1") && clean("dst"));
	tree_done(&t);
}

TEST(names_that_repeat)
{
	struct tree t;
	struct err e = ERR_INIT;

	CHECK(tree_new(&t));
	start();
	put(PACK_DIR, "", "", "");
	put(PACK_FILE, "a", "", "1");
	put(PACK_FILE, "a", "", "2");
	put(PACK_LINK, "l", "a", "");
	put(PACK_FILE, "l", "", "3"); /* replaces the link, a stays */
	CHECK(unpack(&e) == 0 && tree_is(&t, "dst/a", "2") && tree_is(&t, "dst/l", "3"));
	start();
	put(PACK_DIR, "", "", "");
	put(PACK_DIR, "", "", "");
	CHECK(unpack(&e) == -EPROTO && strstr(e.msg, "two roots") != NULL);
	start();
	put(PACK_DIR, "", "", "");
	put(PACK_FILE, "a", "", "1");
	put(PACK_FILE, "a/b", "", "a file is no folder");
	CHECK(unpack(&e) == -ENOTDIR);
	tree_done(&t);
}

TEST(roots_that_are_none)
{
	struct tree t;
	struct err e = ERR_INIT;

	CHECK(tree_new(&t));
	start();
	CHECK(unpack(&e) == -EPROTO && !exists("dst"));
	start();
	put(PACK_FILE, "a", "", "1");
	CHECK(unpack(&e) == -EPROTO && !exists("dst"));
	start();
	put(PACK_FILE, "", "", "1");
	put(PACK_FILE, "a", "", "1");
	CHECK(unpack(&e) == -EPROTO);
	CHECK(unlink("dst") == 0);
	start();
	put(PACK_FILE, "", "", "1");
	put(PACK_FILE, "", "", "2");
	CHECK(unpack(&e) == -EPROTO && tree_is(&t, "dst", "1"));
	CHECK(unlink("dst") == 0);
	buf_done(&stream);
	start();
	memset(&entry, 0, sizeof(entry));
	entry.type = PACK_LINK;
	entry.target[0] = 'x';
	CHECK(pack_put_entry(&stream, &entry) == 0 && unpack(&e) == -ELOOP && !exists("dst"));
	tree_done(&t);
}

TEST(amounts_are_limited)
{
	struct tree t;
	struct err e = ERR_INIT;
	char big[1002];

	CHECK(tree_new(&t));
	memset(big, 'x', sizeof(big) - 1);
	big[1001] = '\0';
	start();
	put(PACK_DIR, "", "", "");
	put(PACK_FILE, "a", "", big);
	CHECK(unpack(&e) == -EFBIG && e.kind == ERR_LIMITED && !exists("dst/a") && clean("dst"));
	start(); /* announced huge: refused before data comes */
	put(PACK_DIR, "", "", "");
	memset(&entry, 0, sizeof(entry));
	entry.type = PACK_FILE;
	entry.path[0] = 'b';
	entry.size = INT64_MAX;
	CHECK(pack_put_entry(&stream, &entry) == 0 && unpack(&e) == -EFBIG && !exists("dst/b"));
	start(); /* many sizes that would wrap around */
	put(PACK_DIR, "", "", "");
	memset(&entry, 0, sizeof(entry));
	entry.type = PACK_FILE;
	entry.path[0] = 'b';
	entry.size = INT64_MAX;
	for (int i = 0; i < 4; i++)
		CHECK(pack_put_entry(&stream, &entry) == 0 && pack_put_file_end(&stream) == 0);
	CHECK(pack_put_end(&stream) == 0);
	CHECK(unpack_with(&(struct copy_out_opts){.dst = "dst",
						  .max_bytes = UINT64_MAX,
						  .max_apparent = UINT64_MAX,
						  .max_entries = 20,
						  .max_folders = 20},
			  &e) == -EFBIG);
	start(); /* folders have a limit of their own, links and files do not count */
	put(PACK_DIR, "", "", "");
	put(PACK_LINK, "l", "f", "");
	put(PACK_FILE, "f", "", "");
	put(PACK_DIR, "last", "", "");
	put(PACK_DIR, "more", "", "");
	CHECK(pack_put_end(&stream) == 0);
	CHECK(unpack_with(&(struct copy_out_opts){.dst = "dst", .max_entries = 20, .max_folders = 2}, &e) ==
		  -EFBIG &&
	      strstr(e.msg, "folders") != NULL && exists("dst/last") && !exists("dst/more"));
	start();
	put(PACK_DIR, "", "", "");
	for (int i = 0; i < 20; i++)
		put(PACK_LINK, "l", "/left/out/but/counted", "");
	CHECK(unpack(&e) == -EFBIG && strstr(e.msg, "entries") != NULL);
	tree_done(&t);
}

/* One limit for all copies of a run: a second one gets what the first left. */
TEST(copies_share_their_room)
{
	struct tree t;
	struct err e = ERR_INIT;
	struct copy_room room = {.bytes = 8, .apparent = 10, .entries = 7, .folders = 2};
	const struct copy_out_opts o = {.dst = "dst",
					.max_bytes = 100,
					.max_apparent = 100,
					.max_entries = 100,
					.max_folders = 100,
					.room = &room};

	CHECK(tree_new(&t));
	start();
	put(PACK_DIR, "", "", "");
	put(PACK_FILE, "a", "", "12345");
	CHECK(pack_put_end(&stream) == 0);
	CHECK(unpack_with(&o, &e) == 0 && room.bytes == 3 && room.apparent == 5 && room.entries == 5);
	CHECK(unpack_with(&o, &e) == -EFBIG && strstr(e.msg, "all copies") != NULL);
	room = (struct copy_room){.bytes = 100, .apparent = 4, .entries = 100, .folders = 100};
	CHECK(unpack_with(&o, &e) == -EFBIG && strstr(e.msg, "all copies") != NULL);
	room = (struct copy_room){.bytes = 100, .apparent = 100, .entries = 1, .folders = 100};
	CHECK(unpack_with(&o, &e) == -EFBIG && strstr(e.msg, "entries") != NULL);
	room = (struct copy_room){.bytes = 100, .apparent = 100, .entries = 100, .folders = 1};
	CHECK(unpack_with(&o, &e) == 0 && room.folders == 0);
	CHECK(unpack_with(&o, &e) == -EFBIG && strstr(e.msg, "folders (all copies") != NULL);
	tree_done(&t);
}

TEST(deep_nesting)
{
	struct tree t;
	struct err e = ERR_INIT;
	char path[2 * PACK_DEPTH_MAX + 2] = "";
	int n = 0;

	CHECK(tree_new(&t));
	start();
	put(PACK_DIR, "", "", "");
	for (size_t i = 0; i < PACK_DEPTH_MAX; i++) {
		path[2 * i] = 'd';
		path[2 * i + 1] = '\0';
		put(PACK_DIR, path, "", "");
		path[2 * i + 1] = '/';
		n++;
	}
	CHECK(pack_put_end(&stream) == 0);
	CHECK(unpack_with(&(struct copy_out_opts){.dst = "dst", .max_entries = 1000, .max_folders = 1000}, &e) == 0);
	path[2 * PACK_DEPTH_MAX - 1] = '\0';
	CHECK(n == PACK_DEPTH_MAX && chdir("dst") == 0 && exists(path));
	/* a folder nobody packed */
	CHECK(chdir(t.root) == 0);
	start();
	put(PACK_DIR, "", "", "");
	put(PACK_FILE, "no/such/folder", "", "x");
	CHECK(unpack(&e) == -ENOENT);
	tree_done(&t);
}

TEST(streams_that_end_early_leave_no_half_file)
{
	struct tree t;
	struct err e = ERR_INIT;
	struct copy_out *c = NULL;
	struct copy_out_opts o = {.dst = "dst", .max_bytes = 100, .max_apparent = 100, .max_entries = 9, .max_folders = 9};

	CHECK(tree_new(&t));
	start();
	put(PACK_DIR, "", "", "");
	put(PACK_FILE, "whole", "", "whole");
	put(PACK_FILE, "half", "", "half of it");
	for (size_t cut = 0; cut < stream.len; cut++) {
		CHECK(copy_out_new(&o, &c, &e) == 0);
		CHECK(copy_out_feed(c, buf_head(&stream), cut, &e) == 0);
		CHECK(copy_out_finish(c, &e) == -EPROTO);
		copy_out_free(c);
		CHECK(!exists("dst") || clean("dst"));
		CHECK(!exists("dst/half") || tree_is(&t, "dst/half", "half of it"));
	}
	CHECK(copy_out_new(&o, &c, &e) == 0);
	CHECK(copy_out_feed(c, buf_head(&stream), stream.len - 8, &e) == 0);
	copy_out_free(c); /* aborted */
	CHECK(clean("dst"));
	tree_done(&t);
}

TEST(names_with_control_bytes_are_only_names)
{
	struct tree t;
	struct err e = ERR_INIT;

	CHECK(tree_new(&t));
	start();
	put(PACK_DIR, "", "", "");
	put(PACK_FILE, "a\nb\033[31m\xff", "", "1");
	CHECK(unpack(&e) == 0 && tree_is(&t, "dst/a\nb\033[31m\xff", "1"));
	start();
	put(PACK_DIR, "", "", "");
	put(PACK_FILE, "no\033\n/x", "", "1");
	CHECK(unpack(&e) < 0 && strchr(e.msg, '\033') == NULL && strchr(e.msg, '\n') == NULL);
	tree_done(&t);
}
TEST_MAIN()

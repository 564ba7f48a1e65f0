#include "base/cleanup.h"
#include "harness/test.h"
#include "session/copy_in.h"
#include "session/copy_out.h"
#include "unit/session/tree.h"

#include <fcntl.h>
#include <sys/stat.h>

static const struct copy_in_opts in_all = {.max_bytes = 1u << 30, .max_entries = 10000};
static struct copy_out_opts out_to(const char *dst)
{
	return (struct copy_out_opts){.dst = dst,
				      .name = "name",
				      .max_bytes = 1u << 30,
				      .max_apparent = 1ull << 40,
				      .max_entries = 10000,
				      .max_folders = 10000};
}

/* Copy src to dst by way of a pack stream. */
static int copy(const char *src, const struct copy_in_opts *in, const struct copy_out_opts *out,
		struct err *e)
{
	struct buf b = {.max = 4 * COPY_IN_STEP};
	struct copy_out *o = NULL;
	struct copy_in *i = NULL;
	int r = copy_in_new(src, in, &i, e), more = 1;

	if (r == 0)
		r = copy_out_new(out, &o, e);
	while (r == 0 && more > 0) {
		more = copy_in_fill(i, &b, e);
		r = more < 0 ? more : copy_out_feed(o, buf_head(&b), b.len, e);
		buf_consume(&b, b.len);
	}
	if (r == 0)
		r = copy_out_finish(o, e);
	copy_in_free(i);
	copy_out_free(o);
	buf_done(&b);
	return r;
}

TEST(a_tree_arrives_as_it_was)
{
	struct tree t;
	struct stat st;
	struct err e = ERR_INIT;

	CHECK(tree_new(&t));
	tree_file(&t, "src/a", "alpha", 0644);
	tree_file(&t, "src/sub/run.sh", "#!/bin/sh\n", 0755);
	tree_file(&t, "src/sub/new\nline \033[31m", "x", 0600);
	tree_file(&t, "src/empty", "", 0444);
	tree_dir(&t, "src/none");
	tree_link(&t, "src/sub/up", "../a");
	tree_link(&t, "src/dangling", "not/there");
	CHECK(copy(tree_at(&t, "src"), &in_all, &(struct copy_out_opts){.dst = "dst",
									 .max_bytes = 1000,
									 .max_apparent = 1000,
									 .max_entries = 9,
									 .max_folders = 9},
		   &e) == 0);
	CHECK(tree_is(&t, "dst/a", "alpha") && tree_is(&t, "dst/empty", ""));
	CHECK(tree_is(&t, "dst/sub/new\nline \033[31m", "x"));
	CHECK(tree_is(&t, "dst/sub/up", "alpha"));
	CHECK(lstat("dst/none", &st) == 0 && S_ISDIR(st.st_mode));
	CHECK(lstat("dst/sub/run.sh", &st) == 0 && (st.st_mode & 07777) == 0755);
	CHECK(lstat("dst/empty", &st) == 0 && (st.st_mode & 07777) == 0444);
	CHECK(lstat("dst/dangling", &st) == 0 && S_ISLNK(st.st_mode));
	tree_done(&t);
}

TEST(where_a_single_file_goes)
{
	struct tree t;
	struct err e = ERR_INIT;
	struct copy_out_opts o = out_to("new");

	CHECK(tree_new(&t));
	tree_file(&t, "src", "one", 0644);
	CHECK(copy("src", &in_all, &o, &e) == 0 && tree_is(&t, "new", "one"));
	tree_file(&t, "src", "two", 0644);
	CHECK(copy("src", &in_all, &o, &e) == 0 && tree_is(&t, "new", "two"));
	tree_dir(&t, "folder");
	o = out_to("folder");
	CHECK(copy("src", &in_all, &o, &e) == 0 && tree_is(&t, "folder/name", "two"));
	o = out_to("missing/x");
	CHECK(copy("src", &in_all, &o, &e) == -ENOENT);
	o = out_to("missing/");
	CHECK(copy("src", &in_all, &o, &e) == -ENOENT);
	tree_file(&t, "other", "keep", 0644);
	tree_link(&t, "link", "other"); /* replaced, not written through */
	o = out_to("link");
	CHECK(copy("src", &in_all, &o, &e) == 0);
	CHECK(tree_is(&t, "other", "keep") && tree_is(&t, "link", "two"));
	tree_done(&t);
}

TEST(a_folder_is_merged_into_an_existing_one)
{
	struct tree t;
	struct err e = ERR_INIT;
	struct copy_out_opts o = out_to("dst");

	CHECK(tree_new(&t));
	tree_file(&t, "src/sub/a", "new", 0644);
	tree_file(&t, "dst/sub/a", "old", 0644);
	tree_file(&t, "dst/sub/b", "stays", 0644);
	CHECK(copy("src", &in_all, &o, &e) == 0);
	CHECK(tree_is(&t, "dst/sub/a", "new") && tree_is(&t, "dst/sub/b", "stays"));
	tree_file(&t, "src/sub/b/c", "folder over file", 0644);
	CHECK(unlink("src/sub/b/c") == 0);
	CHECK(copy("src", &in_all, &o, &e) == -ENOTDIR);
	CHECK(tree_is(&t, "dst/sub/b", "stays"));
	tree_done(&t);
}

TEST(links_are_not_followed_and_not_carried_out)
{
	struct tree t;
	struct stat st;
	struct err e = ERR_INIT;
	struct copy_out_opts o = out_to("dst");

	CHECK(tree_new(&t));
	tree_file(&t, "secret", "s3cret", 0600);
	tree_file(&t, "src/ok", "ok", 0644);
	tree_link(&t, "src/abs", "/etc/passwd");
	tree_link(&t, "src/out", "../secret");
	tree_link(&t, "src/sly", "ok/../../secret");
	tree_link(&t, "src/self", ".");
	CHECK(mkfifo("src/pipe", 0600) == 0);
	CHECK(copy("src", &in_all, &o, &e) == 0);
	CHECK(lstat("dst/abs", &st) < 0 && lstat("dst/out", &st) < 0 && lstat("dst/sly", &st) < 0);
	CHECK(lstat("dst/pipe", &st) < 0 && lstat("dst/self", &st) == 0);
	tree_link(&t, "top", "secret");
	CHECK(copy("top", &in_all, &o, &e) == -ELOOP);
	CHECK(strstr(e.msg, "symbolic link") != NULL);
	CHECK(copy("src/pipe", &in_all, &o, &e) < 0);
	CHECK(copy("nothing", &in_all, &o, &e) == -ENOENT && e.kind == ERR_NOT_FOUND);
	tree_done(&t);
}

static char warned[4096];
static void collect(void *arg, const char *text)
{
	(void)arg;
	(void)snprintf(warned + strlen(warned), sizeof(warned) - strlen(warned), "%s\n", text);
}

TEST(what_is_left_out_is_said)
{
	struct tree t;
	struct err e = ERR_INIT;
	struct copy_in *c = NULL;
	struct copy_in_opts o = in_all;

	warned[0] = '\0';
	CHECK(tree_new(&t));
	tree_link(&t, "src/bad\033name", "/etc/passwd");
	o.warn.fn = collect;
	for (int i = 0; i < 30; i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "src/l%d", i);
		tree_link(&t, name, "/x");
	}
	CHECK(copy_in_new("src", &o, &c, &e) == 0);
	CHECK(copy_in_warnings(c)->count == 31 && copy_in_warnings(c)->shown == COPY_WARN_MAX);
	CHECK(strstr(warned, "leads out") != NULL && strchr(warned, '\033') == NULL);
	CHECK(copy_in_entries(c) == 1 && copy_in_bytes(c) == 0 && copy_in_is_dir(c));
	copy_in_free(c);
	tree_done(&t);
}

TEST(too_much_is_refused_before_anything_is_sent)
{
	struct tree t;
	struct err e = ERR_INIT;
	struct copy_in *c = NULL;
	struct copy_in_opts o = {.max_bytes = 9, .max_entries = 4};

	CHECK(tree_new(&t));
	tree_file(&t, "src/a", "12345", 0644);
	tree_file(&t, "src/b", "1234", 0644);
	CHECK(copy_in_new("src", &o, &c, &e) == 0);
	CHECK(copy_in_bytes(c) == 9 && copy_in_entries(c) == 3);
	copy_in_free(c);
	tree_file(&t, "src/c", "1", 0644);
	CHECK(copy_in_new("src", &o, &c, &e) == -EFBIG);
	CHECK(e.kind == ERR_LIMITED && strstr(e.msg, "limit is 9") != NULL);
	tree_file(&t, "src/c", "", 0644);
	tree_file(&t, "src/d", "", 0644);
	CHECK(copy_in_new("src", &o, &c, &e) == -EFBIG && strstr(e.msg, "entries") != NULL);
	CHECK(copy_in_new("src/a", &(struct copy_in_opts){.max_bytes = 4, .max_entries = 1}, &c,
			  &e) == -EFBIG);
	tree_done(&t);
}

TEST(a_source_that_grows_meanwhile_is_cut_or_refused)
{
	struct tree t;
	struct err e = ERR_INIT;
	struct copy_in *c = NULL;
	struct buf b = {.max = 4 * COPY_IN_STEP};
	struct copy_in_opts o = {.max_bytes = 5, .max_entries = 3};

	CHECK(tree_new(&t));
	tree_file(&t, "src/a", "12345", 0644);
	CHECK(copy_in_new("src", &o, &c, &e) == 0);
	tree_file(&t, "src/a", "123456", 0644);
	CHECK(copy_in_fill(c, &b, &e) == -EFBIG);
	copy_in_free(c);
	buf_done(&b);
	tree_done(&t);
}

TEST(excludes_and_ignore_files)
{
	struct tree t;
	struct stat st;
	struct err e = ERR_INIT;
	struct copy_out_opts o = out_to("dst");
	struct copy_in_opts in = in_all;

	CHECK(tree_new(&t));
	tree_file(&t, "src/.gitignore", "*.log\n/build/\n!keep.log\n", 0644);
	tree_file(&t, "src/x.log", "", 0644);
	tree_file(&t, "src/keep.log", "", 0644);
	tree_file(&t, "src/build/out", "", 0644);
	tree_file(&t, "src/sub/build/in", "", 0644);
	tree_file(&t, "src/sub/.gitignore", "keep.log\n!x.log\n", 0644);
	tree_file(&t, "src/sub/keep.log", "", 0644);
	tree_file(&t, "src/sub/x.log", "", 0644);
	tree_file(&t, "src/node_modules/m", "", 0644);
	tree_file(&t, "src/sub/a.o", "", 0644);
	in.rules.gitignore = true;
	in.rules.exclude = (const char *const[]){"node_modules/", "*.o"};
	in.rules.exclude_n = 2;
	CHECK(copy("src", &in, &o, &e) == 0);
	CHECK(lstat("dst/x.log", &st) < 0 && lstat("dst/keep.log", &st) == 0);
	CHECK(lstat("dst/build", &st) < 0 && lstat("dst/sub/build/in", &st) == 0);
	CHECK(lstat("dst/sub/keep.log", &st) < 0 && lstat("dst/sub/x.log", &st) == 0);
	CHECK(lstat("dst/node_modules", &st) < 0 && lstat("dst/sub/a.o", &st) < 0);
	CHECK(lstat("dst/.gitignore", &st) == 0);
	in.rules.gitignore = false;
	CHECK(copy("src", &in, &o, &e) == 0 && lstat("dst/x.log", &st) == 0);
	tree_done(&t);
}

TEST(holes_stay_holes)
{
	struct tree t;
	struct stat st;
	struct err e = ERR_INIT;
	struct copy_out_opts o = out_to("dst");
	struct copy_in_opts in = {.max_bytes = 1u << 20, .max_entries = 2};
	_cleanup_close_ int fd = -1;
	char c[4] = "";

	CHECK(tree_new(&t));
	fd = open("src", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	CHECK(fd >= 0 && pwrite(fd, "end", 3, 20ll << 30) == 3);
	CHECK(ftruncate(fd, 50ll << 30) == 0);
	CHECK(copy("src", &in, &o, &e) == 0);
	CHECK(stat("dst", &st) == 0 && st.st_size == 50ll << 30 && st.st_blocks < 2048);
	(void)close(fd);
	fd = open("dst", O_RDONLY | O_CLOEXEC);
	CHECK(pread(fd, c, 3, 20ll << 30) == 3 && strcmp(c, "end") == 0);
	o.max_apparent = 1ll << 30;
	CHECK(copy("src", &in, &o, &e) == -EFBIG);
	tree_done(&t);
}

TEST(a_large_file_and_the_tee)
{
	struct tree t;
	struct err e = ERR_INIT;
	struct copy_tee tee_in = COPY_TEE_INIT, tee_out = COPY_TEE_INIT;
	struct copy_out_opts o = out_to(NULL);
	struct copy_in_opts in = in_all;
	static char big[700001], x[1024], y[1024];

	for (size_t i = 0; i < sizeof(big) - 1; i++)
		big[i] = (char)('a' + i * 7 % 26);
	CHECK(tree_new(&t));
	tree_file(&t, "src/f", big, 0644);
	CHECK(copy_tee_open(&tee_in, 1u << 20, &e) == 0 && copy_tee_open(&tee_out, 1u << 20, &e) == 0);
	in.tee = &tee_in;
	o.tee = &tee_out;
	CHECK(copy("src", &in, &o, &e) == 0);
	CHECK(tee_in.len == tee_out.len && tee_in.len > 700000);
	for (uint64_t at = 0; at < tee_in.len; at += sizeof(x)) {
		ssize_t n = pread(tee_in.fd, x, sizeof(x), (off_t)at);

		CHECK(pread(tee_out.fd, y, sizeof(y), (off_t)at) == n && memcmp(x, y, (size_t)n) == 0);
	}
	copy_tee_close(&tee_in);
	copy_tee_close(&tee_out);
	CHECK(copy_tee_open(&tee_in, 1000, &e) == 0);
	CHECK(copy("src", &in, &o, &e) == -EFBIG && e.kind == ERR_LIMITED);
	copy_tee_close(&tee_in);
	in.tee = NULL;
	o = out_to("dst");
	CHECK(copy("src", &in, &o, &e) == 0 && tree_is(&t, "dst/f", big));
	tree_done(&t);
}
TEST_MAIN()

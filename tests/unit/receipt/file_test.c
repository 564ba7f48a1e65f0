/* A receipt takes the place of what is there, or leaves all as it was. */
#include "harness/test.h"
#include "receipt/receipt.h"
#include "unit/session/tree.h"

#include <dirent.h>

static const char path[] = "r";
static struct tree scratch;

static void begin(void)
{
	if (!tree_new(&scratch))
		abort();
}

static void put(const char *text) { tree_file(&scratch, path, text, 0600); }

static bool holds(const char *text)
{
	uint8_t *p = NULL;
	struct err e = ERR_INIT;
	size_t n;
	bool same = receipt_file_read(path, &p, &n, &e) == 0 && n == strlen(text) &&
		    memcmp(p, text, n) == 0;

	free(p);
	return same;
}

/* Is there nothing in the folder but the receipt's name? The folder is removed. */
static bool alone(void)
{
	DIR *d = opendir(".");
	const struct dirent *e;
	int n = 0;

	while (d != NULL && (e = readdir(d)) != NULL)
		n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	if (d != NULL)
		(void)closedir(d);
	tree_done(&scratch);
	return n == 1;
}

static int made(struct receipt_file *f, const char *text)
{
	struct err e = ERR_INIT;
	int r = receipt_file_write(f, text, strlen(text), &e);

	receipt_file_done(f);
	return r;
}

static struct receipt_file opened(void)
{
	struct receipt_file f;
	struct err e = ERR_INIT;

	if (receipt_file_open(path, &f, &e) < 0)
		abort();
	return f;
}

TEST(where_nothing_was)
{
	struct receipt_file f;

	begin();
	f = opened();
	CHECK(f.old_fd < 0 && made(&f, "new") == 0 && holds("new") && alone());
}

TEST(what_was_there_is_replaced_and_kept_until_it_is_let_go_of)
{
	struct receipt_file f;
	struct stat st;
	int fd;

	begin();
	put("old");
	f = opened();
	fd = fcntl(f.old_fd, F_DUPFD_CLOEXEC, 0);
	CHECK(fd >= 0 && holds("old") && made(&f, "new") == 0 && holds("new"));
	CHECK(fstat(fd, &st) == 0 && st.st_nlink == 0 && st.st_size == 3);
	(void)close(fd);
	CHECK(alone());
}

TEST(what_was_there_goes_meanwhile)
{
	struct receipt_file f;

	begin();
	put("old");
	f = opened();
	(void)unlink(path);
	CHECK(made(&f, "new") == 0 && holds("new") && alone());
}

TEST(something_comes_meanwhile)
{
	struct receipt_file f;

	begin();
	f = opened();
	put("other");
	CHECK(made(&f, "new") == 0 && holds("new") && alone());
}

TEST(a_folder_that_comes_meanwhile_stays)
{
	struct receipt_file f;
	struct stat st;

	begin();
	put("old");
	f = opened();
	(void)unlink(path);
	CHECK(mkdir(path, 0700) == 0 && made(&f, "new") < 0);
	CHECK(stat(path, &st) == 0 && S_ISDIR(st.st_mode) && alone());
}

TEST(what_is_not_finished_leaves_all_as_it_was)
{
	struct receipt_file f;

	begin();
	put("old");
	f = opened();
	receipt_file_done(&f);
	CHECK(holds("old") && alone());
}

TEST(what_was_reserved_is_given_back)
{
	struct receipt_file f;
	struct err e = ERR_INIT;
	struct stat st;

	begin();
	f = opened();
	CHECK(receipt_file_reserve(&f, 100000, &e) == 0 && made(&f, "new") == 0 && holds("new"));
	CHECK(stat(path, &st) == 0 && st.st_size == 3 && st.st_blocks < 100000 / 512 && alone());
}

TEST_MAIN()

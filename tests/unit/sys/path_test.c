#include "sys/path.h"

#include "base/cleanup.h"
#include "harness/test.h"
#include "unit/session/tree.h"

static int try(int dir, const char *path, int flags)
{
	int fd = path_open_beneath(dir, path, flags, 0600);

	if (fd < 0)
		return fd;
	(void)close(fd);
	return 0;
}

TEST(nothing_outside_is_opened)
{
	struct tree t;
	struct stat st;
	_cleanup_close_ int dir = -1;

	CHECK(tree_new(&t));
	tree_file(&t, "in/sub/file", "x", 0644);
	tree_file(&t, "secret", "x", 0644);
	tree_link(&t, "in/abs", "/etc/passwd");
	tree_link(&t, "in/out", "../secret");
	tree_link(&t, "in/ln", "sub");
	tree_link(&t, "in/dangling", "new");
	dir = open("in", O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK(try(dir, "sub/file", O_RDONLY) == 0 && try(dir, ".", O_RDONLY | O_DIRECTORY) == 0);
	CHECK(try(dir, "sub/../sub/file", O_RDONLY) == 0);
	CHECK(try(dir, "..", O_RDONLY) == -EXDEV && try(dir, "../secret", O_RDONLY) == -EXDEV);
	CHECK(try(dir, "sub/../../secret", O_RDONLY) == -EXDEV);
	CHECK(try(dir, "/etc/passwd", O_RDONLY) == -EXDEV);
	CHECK(try(dir, "abs", O_RDONLY) == -ELOOP && try(dir, "out", O_RDONLY) == -ELOOP);
	CHECK(try(dir, "ln/file", O_RDONLY) == -ELOOP && try(dir, "ln", O_RDONLY) == -ELOOP);
	CHECK(try(dir, "dangling", O_WRONLY | O_CREAT) == -ELOOP && lstat("in/new", &st) < 0);
	CHECK(try(dir, "new", O_WRONLY | O_CREAT | O_EXCL) == 0);
	CHECK(lstat("in/new", &st) == 0 && (st.st_mode & 07777) == 0600);
	CHECK(try(dir, "new", O_WRONLY | O_CREAT | O_EXCL) == -EEXIST);
	CHECK(try(dir, "missing", O_RDONLY) == -ENOENT);
	tree_done(&t);
}

TEST(magic_links_are_refused)
{
	_cleanup_close_ int dir = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);

	CHECK(dir >= 0 && try(dir, "fd/0", O_RDONLY) < 0 && try(dir, "root", O_PATH) < 0);
}

TEST(descriptors_close_on_exec)
{
	_cleanup_close_ int dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int fd = path_open_beneath(dir, "tmp", O_PATH | O_DIRECTORY, 0);

	CHECK(fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
}
TEST_MAIN()

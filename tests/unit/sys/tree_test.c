#include "sys/tree.h"

#include "base/cleanup.h"
#include "harness/test.h"
#include "unit/session/tree.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

static bool there(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

TEST(all_goes_and_nothing_else)
{
	struct tree t;

	CHECK(tree_new(&t));
	tree_file(&t, "outside/file", "x", 0644);
	tree_file(&t, "in/a/b/file", "x", 0);
	tree_link(&t, "in/a/link", "../../outside");
	tree_link(&t, "in/\001\n", "nowhere");
	CHECK(chmod("in/a/b", 0) == 0 && chmod("in/a", 0500) == 0);
	CHECK(tree_remove(AT_FDCWD, "in") == 0 && !there("in") && there("outside/file"));
	CHECK(tree_remove(AT_FDCWD, "in") == 0);
	tree_link(&t, "top", "outside");
	CHECK(tree_remove(AT_FDCWD, "top") == 0 && !there("top") && there("outside/file"));
	CHECK(tree_remove(AT_FDCWD, tree_at(&t, "outside")) == 0 && !there("outside"));
	tree_done(&t);
}

TEST(what_is_too_deep_keeps_nothing_else)
{
	struct tree t;
	char path[4 * TREE_DEPTH_MAX] = "in";

	CHECK(tree_new(&t));
	for (int i = 0; i < TREE_DEPTH_MAX + 1; i++)
		strcat(path, "/d");
	tree_dir(&t, path);
	tree_file(&t, "in/a", "x", 0644);
	tree_file(&t, "in/z/file", "x", 0644);
	CHECK(tree_remove(AT_FDCWD, "in") == -ELOOP && there("in/d") && !there("in/a") && !there("in/z"));
	tree_done(&t);
}

/* In namespaces of its own, since it mounts; 77: there are none to be had. */
static int beside_a_mount(void)
{
	if (unshare(CLONE_NEWNS | (geteuid() != 0 ? CLONE_NEWUSER : 0)) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("outside", "in/mount", NULL, MS_BIND, NULL) < 0)
		return 77;
	return tree_remove(AT_FDCWD, "in") == -EXDEV && there("in/mount/file") && !there("in/a") && !there("in/z") ? 0 : 1;
}

TEST(no_mount_is_entered)
{
	struct tree t;
	pid_t pid;
	int st;

	CHECK(tree_new(&t));
	tree_file(&t, "outside/file", "x", 0644);
	tree_dir(&t, "in/mount");
	tree_file(&t, "in/a", "x", 0644);
	tree_file(&t, "in/z/file", "x", 0644);
	pid = fork();
	if (pid == 0)
		_exit(beside_a_mount());
	CHECK(pid > 0 && waitpid(pid, &st, 0) == pid && WIFEXITED(st) && (WEXITSTATUS(st) == 0 || WEXITSTATUS(st) == 77));
	CHECK(there("outside/file"));
	tree_done(&t);
}

TEST(names_are_sorted_by_their_bytes)
{
	static const char *const want[] = {"-", "B", "a", "\xc3\xa4"};
	struct tree_names l = TREE_NAMES_INIT;
	_cleanup_close_ int fd = -1;
	struct tree t;

	CHECK(tree_new(&t));
	for (size_t i = 0; i < 4; i++)
		tree_file(&t, want[3 - i], "x", 0644);
	fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(tree_names(fd, &l) == 0 && l.n == 4);
	for (size_t i = 0; i < l.n; i++)
		CHECK(strcmp(l.v[i], want[i]) == 0);
	tree_names_done(&l);
	tree_done(&t);
}
TEST_MAIN()

#include "parse/user.h"
#include "harness/test.h"

#include <errno.h>
#include <string.h>

static const char passwd[] = "# comment\n"
			     "root:x:0:0:root:/root:/bin/bash\n"
			     "short:x:1\n"
			     "neg:x:-1:5::/:/bin/sh\n"
			     "huge:x:4294967295:5::/:/bin/sh\n"
			     "over:x:42949672960:5::/:/bin/sh\n"
			     "user:x:1000:100:A User,,,:/home/user:/bin/zsh\n"
			     "rel:x:7:8::home:sh\n"
			     "user:x:1:1::/second:/bin/sh\n"
			     "last:x:9:9::/last:/bin/last";

static int find(const char *spec, struct user *u)
{
	return user_find(spec, strlen(spec), passwd, sizeof(passwd) - 1, u);
}

TEST(by_name)
{
	struct user u;

	CHECK(find("user", &u) == 0);
	CHECK(u.uid == 1000 && u.gid == 100);
	CHECK(strcmp(u.home, "/home/user") == 0 && strcmp(u.shell, "/bin/zsh") == 0);
	CHECK(find("last", &u) == 0 && u.uid == 9 && strcmp(u.shell, "/bin/last") == 0);
	CHECK(find("use", &u) == -ENOENT && find("users", &u) == -ENOENT);
}

TEST(ids_that_mean_no_change_or_wrap_are_no_users)
{
	struct user u;

	CHECK(find("neg", &u) == -ENOENT);
	CHECK(find("huge", &u) == -ENOENT);
	CHECK(find("over", &u) == -ENOENT);
	CHECK(find("short", &u) == -ENOENT);
	CHECK(find("4294967295", &u) == -EINVAL);
	CHECK(find("5:4294967295", &u) == -EINVAL);
	CHECK(find("5000000000", &u) == -EINVAL);
}

TEST(by_number)
{
	struct user u;

	CHECK(find("1000", &u) == 0 && u.gid == 100 && strcmp(u.name, "user") == 0);
	CHECK(find("1000:5", &u) == 0 && u.gid == 5);
	CHECK(find("4242", &u) == 0 && u.uid == 4242 && u.gid == 4242);
	CHECK(u.name[0] == '\0' && strcmp(u.home, "/") == 0 && strcmp(u.shell, "/bin/sh") == 0);
}

TEST(odd_specs)
{
	static const char *const bad[] = {"", ":", ":5", "5:", "5:x", "5:5:5", "1a", "5:-1", "user:users"};
	struct user u;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(find(bad[i], &u) == -EINVAL);
}

TEST(relative_homes_become_defaults)
{
	struct user u;

	CHECK(find("rel", &u) == 0);
	CHECK(strcmp(u.home, "/") == 0 && strcmp(u.shell, "/bin/sh") == 0);
}

TEST(root_needs_no_file)
{
	struct user u;

	CHECK(user_find("root", 4, NULL, 0, &u) == 0);
	CHECK(u.uid == 0 && u.gid == 0 && strcmp(u.home, "/root") == 0);
	CHECK(user_find("user", 4, NULL, 0, &u) == -ENOENT);
}

TEST(groups)
{
	static const char group[] = "a:x:1:user\nb:x:2:root,user,x\nc:x:3:users\nd:x:4\nown:x:100:user\n"
				    "bad:x:-1:user\ne:x:5:x,user";
	char many[8192];
	size_t n = 0;
	struct user u;

	CHECK(find("user", &u) == 0);
	user_groups(group, sizeof(group) - 1, &u);
	CHECK(u.groups_n == 3 && u.groups[0] == 1 && u.groups[1] == 2 && u.groups[2] == 5);
	for (int i = 0; i < 400; i++)
		n += (size_t)snprintf(many + n, sizeof(many) - n, "g:x:%d:user\n", 2000 + i);
	user_groups(many, n, &u);
	CHECK(u.groups_n == USER_GROUPS_MAX);
}

TEST(names)
{
	char name[USER_STR_MAX];

	user_name_of(passwd, sizeof(passwd) - 1, 1000, name);
	CHECK(strcmp(name, "user") == 0);
	user_name_of(passwd, sizeof(passwd) - 1, 12, name);
	CHECK(name[0] == '\0');
}
TEST_MAIN()

#include "image/recipe.h"
#include "harness/test.h"

#include <stdio.h>
#include <string.h>

static struct recipe rec;
static struct err err;

static int load(const char *text)
{
	err = ERR_INIT;
	return recipe_load("r.yaml", text, strlen(text), &rec, &err);
}

/* Refused, and the message begins so. */
static int refused(const char *text, const char *says)
{
	int r = load(text);
	int ok = r < 0 && strncmp(err.msg, says, strlen(says)) == 0;

	if (!ok)
		printf("# %s\n# got %d: %s\n", says, r, err.msg);
	recipe_done(&rec);
	return ok;
}

TEST(every_key)
{
	CHECK(load("suite: bookworm\n"
		   "packages:\n"
		   "- bash\n"
		   "- git=1:2.39.5-0+deb12u3\n"
		   "without: [git-man]\n"
		   "mirrors: ['http://h/debian', 'https://h:8/x~y sid main contrib']\n"
		   "keyring: /k.gpg\n"
		   "user: _u-1\n"
		   "env: [A=b, B=]\n"
		   "workdir: /w\n"
		   "cmd: [sh, -c]\n") == 0);
	CHECK(strcmp(rec.suite, "bookworm") == 0 && rec.packages.n == 2 && rec.without.n == 1);
	CHECK(strcmp(rec.packages.v[1], "git=1:2.39.5-0+deb12u3") == 0);
	CHECK(rec.package_line[0] == 3 && rec.package_line[1] == 4);
	CHECK(rec.line[RECIPE_SUITE] == 1 && rec.line[RECIPE_CMD] == 11 && rec.line[RECIPE_SNAPSHOT] == 0);
	CHECK(rec.mirrors.n == 2 && rec.env.n == 2 && rec.cmd.n == 2 && strcmp(rec.user, "_u-1") == 0);
	recipe_done(&rec);
	CHECK(load("suite: a\npackages: []\nsnapshot: 20260131T000000Z\n") == 0);
	recipe_done(&rec);
}

TEST(what_is_missing_or_too_much)
{
	CHECK(refused("", "r.yaml:1: the file is empty"));
	CHECK(refused("packages: []\n", "r.yaml:1: suite is missing"));
	CHECK(refused("suite: a\n", "r.yaml:1: packages is missing"));
	CHECK(refused("suite: a\nsuite: b\n", "r.yaml:2: suite is given twice (first in line 1)"));
	CHECK(refused("suite: a\npackage: []\n", "r.yaml:2: unknown key 'package': did you mean 'packages'?"));
	CHECK(refused("suite: a\npackages: []\nsnapshot: 20260131T000000Z\nmirrors: ['http://h/']\n",
		      "r.yaml:3: snapshot and mirrors"));
	CHECK(refused("suite: a\npackages: []\n---\nsuite: b\n", "r.yaml:3: a recipe is one document"));
	CHECK(refused("suite: &x a\npackages: []\n", "r.yaml:1: anchors"));
	CHECK(refused("suite: [a]\npackages: []\n", "r.yaml:1: suite: a Debian suite"));
	CHECK(refused("suite: a\npackages: bash\n", "r.yaml:2: packages: a list"));
	CHECK(refused("suite: a\npackages: [[bash]]\n", "r.yaml:2: packages: NAME or"));
	CHECK(refused("suite: 'a\n", "r.yaml:"));
}

/* Words that would mean something to a program, a shell or a file of sources. */
TEST(hostile_words)
{
	static const char *const packages[] = {"-o", "a/b", "../../etc", "bash;id", "$(id)", "bash,sudo", "a b", "BASH", "x",
					       "bash=", "bash=-1", "bash=1 2", "bash=$x", "bash:i386", ".deb", "'a\\nb'"};
	static const char *const mirrors[] = {"file:///x", "copy:/x", "http://", "http:///x", "'http://h/ [trusted=yes]'",
					      "'http://h/  a'", "'http://h/ '", "'http://h/ -o'", "'http://h/\\nx'", "http://u@h/"};
	static const char *const users[] = {"root", "a:b", "-x", "1a", "'a b'", "../x", "A"};
	static const char *const paths[] = {"w", "/a/../b", "'/a b'", "/$x", "'/a;b'"};
	char text[200];

	for (size_t i = 0; i < sizeof(packages) / sizeof(*packages); i++) {
		(void)snprintf(text, sizeof(text), "suite: a\npackages:\n- bash\n- \"%s\"\n", packages[i]);
		CHECK(refused(text, "r.yaml:4: packages: "));
	}
	for (size_t i = 0; i < sizeof(mirrors) / sizeof(*mirrors); i++) {
		(void)snprintf(text, sizeof(text), "suite: a\npackages: []\nmirrors: [\"%s\"]\n", mirrors[i]);
		CHECK(refused(text, "r.yaml:3: mirrors: "));
	}
	for (size_t i = 0; i < sizeof(users) / sizeof(*users); i++) {
		(void)snprintf(text, sizeof(text), "suite: a\npackages: []\nuser: \"%s\"\n", users[i]);
		CHECK(refused(text, "r.yaml:3: user: "));
	}
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		(void)snprintf(text, sizeof(text), "suite: a\npackages: []\nworkdir: \"%s\"\n", paths[i]);
		CHECK(refused(text, "r.yaml:3: workdir: "));
	}
	CHECK(refused("suite: a\npackages: []\nenv: [\"=x\"]\n", "r.yaml:3: env: "));
	CHECK(refused("suite: a/b\npackages: []\n", "r.yaml:1: suite: "));
	CHECK(refused("suite: a\npackages: []\nsnapshot: 2026\n", "r.yaml:3: snapshot: "));
	CHECK(refused("suite: a\npackages: [\"\x1b[31m\"]\n", "r.yaml:"));
	CHECK(strchr(err.msg, '\x1b') == NULL);
}

TEST(too_long)
{
	static char text[RECIPE_MAX + 2];

	memset(text, '#', sizeof(text) - 1);
	CHECK(load(text) < 0);
	CHECK(strstr(err.msg, "larger than 64 KiB") != NULL);
}

TEST_MAIN()

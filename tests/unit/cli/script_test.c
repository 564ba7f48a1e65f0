#include "cli/script.h"
#include "harness/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int shebang(const char *line, const char *interpreter, const char *arg)
{
	struct script s = {.path = ""};
	int r = script_shebang(line, strlen(line), &s);

	if (interpreter == NULL)
		return r < 0;
	if (r == 0 && strcmp(s.interpreter, interpreter) == 0 && strcmp(s.arg, arg) == 0)
		return 1;
	printf("# %s: %d '%s' '%s'\n", line, r, s.interpreter, s.arg);
	return 0;
}

TEST(shebangs)
{
	CHECK(shebang("#!/bin/sh", "sh", ""));
	CHECK(shebang("#! /bin/bash -eu ", "bash", "-eu"));
	CHECK(shebang("#!/usr/bin/env python3", "python3", ""));
	CHECK(shebang("#!/usr/bin/env -S python3 -u", "python3", "-u"));
	CHECK(shebang("#!/usr/bin/env -i A=b /opt/perl", "perl", ""));
	CHECK(shebang("#!/usr/bin/python3\r", "python3", ""));
	CHECK(shebang("#!python3", "python3", ""));
	CHECK(shebang("#!", NULL, NULL));
	CHECK(shebang("#!   ", NULL, NULL));
	CHECK(shebang("#!/usr/bin/env", NULL, NULL));
	CHECK(shebang("#!/usr/bin/env -S", NULL, NULL));
	CHECK(shebang("#!/bin/", NULL, NULL));
}

TEST(long_names_do_not_fit)
{
	char line[400] = "#!/";

	memset(line + 3, 'x', 200);
	line[203] = '\0';
	CHECK(shebang(line, NULL, NULL));
	memcpy(line, "#!/bin/sh ", 10);
	memset(line + 10, 'x', 300);
	line[310] = '\0';
	CHECK(shebang(line, NULL, NULL));
}

static void put(const char *name, const char *text, size_t n, mode_t mode)
{
	FILE *f = fopen(name, "w");

	if (f == NULL)
		return;
	(void)fwrite(text, 1, n, f);
	(void)fclose(f);
	(void)chmod(name, mode);
}
#define PUT(name, text, mode) put(name, text, sizeof(text) - 1, mode)

static int detected(const char *word, const char *interpreter, const char *inside)
{
	struct err e = ERR_INIT;
	struct script s;
	int r = script_detect(word, &s, &e);

	if (interpreter == NULL)
		return r == 0;
	if (r == 1 && strcmp(s.interpreter, interpreter) == 0 && strcmp(s.inside, inside) == 0)
		return 1;
	printf("# %s: %d %s\n", word, r, e.msg);
	return 0;
}

TEST(files)
{
	char dir[] = "/tmp/brig-script-XXXXXX";
	struct script s;
	struct err e = ERR_INIT;

	CHECK(mkdtemp(dir) != NULL && chdir(dir) == 0);
	PUT("a.py", "print(1)\n", 0644);
	PUT("b", "#!/usr/bin/env node\n", 0755);
	PUT("c.py", "#!/usr/bin/python2\n", 0644);
	PUT("d", "plain text\n", 0755);
	PUT("e", "\177ELF\2\1\1\0\0\0\0\0", 0755);
	PUT("bad", "#!\n", 0755);
	PUT("empty.sh", "", 0644);
	CHECK(mkdir("dir.py", 0755) == 0);
	CHECK(detected("a.py", "python3", "/workspace/a.py"));
	CHECK(detected("./b", "node", "/workspace/b"));
	CHECK(detected("c.py", "python2", "/workspace/c.py")); /* the #! line wins */
	CHECK(detected("empty.sh", "sh", "/workspace/empty.sh"));
	CHECK(detected("d", NULL, NULL));
	CHECK(detected("./e", "", "/workspace/e"));
	CHECK(detected("e", NULL, NULL)); /* a program file only when a path is given */
	CHECK(detected("dir.py", NULL, NULL));
	CHECK(detected("missing.py", NULL, NULL));
	CHECK(detected("/usr/bin/python3", NULL, NULL)); /* the image's own */
	CHECK(script_detect("bad", &s, &e) < 0 && strstr(e.msg, "no interpreter") != NULL);
	CHECK(unlink("a.py") == 0 && unlink("b") == 0 && unlink("c.py") == 0 && unlink("d") == 0);
	CHECK(unlink("e") == 0 && unlink("bad") == 0 && unlink("empty.sh") == 0);
	CHECK(rmdir("dir.py") == 0 && chdir("/") == 0 && rmdir(dir) == 0);
}
TEST_MAIN()

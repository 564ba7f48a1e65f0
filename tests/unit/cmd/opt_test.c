#include "cli/command.h"
#include "cli/run_args.h"
#include "cli/run_path.h"
#include "harness/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct err err;
static struct run_args args;

static int parse(const char *const *words)
{
	static char *argv[32];
	int n = 0, r;

	for (int i = 0; argv[i] != NULL; i++)
		free(argv[i]);
	argv[n++] = strdup("run");
	for (; *words != NULL; words++)
		argv[n++] = strdup(*words);
	argv[n] = NULL;
	run_args_done(&args);
	err = ERR_INIT;
	r = run_args_parse(argv, &args, &err);
	return r;
}
#define PARSE(...) parse((const char *const[]){__VA_ARGS__, NULL})
#define LOADS(...) (PARSE(__VA_ARGS__) == 0 && run_args_load(&args, &err) == 0)
#define SAYS(text) (strstr(err.msg, (text)) != NULL || (printf("# %s\n", err.msg), 0))

TEST(options_end_at_the_command)
{
	CHECK(PARSE("--memory", "64M", "prog", "--memory", "x") == 0);
	CHECK(strcmp(args.command[0], "prog") == 0 && strcmp(args.command[1], "--memory") == 0);
	CHECK(!args.literal && strcmp(args.one[RUN_MEMORY], "64M") == 0);
	CHECK(PARSE("--", "--help") == 0 && args.literal);
	CHECK(strcmp(args.command[0], "--help") == 0);
	CHECK(PARSE("-", "x") == 0 && strcmp(args.command[0], "-") == 0);
}

TEST(spellings)
{
	CHECK(PARSE("--memory=1G", "x") == 0 && strcmp(args.one[RUN_MEMORY], "1G") == 0);
	CHECK(PARSE("-m1G", "x") == 0 && strcmp(args.one[RUN_MEMORY], "1G") == 0);
	CHECK(PARSE("-m", "1G", "x") == 0 && strcmp(args.one[RUN_MEMORY], "1G") == 0);
	CHECK(PARSE("-it", "x") == 0 && args.on[RUN_INTERACTIVE] && args.on[RUN_TTY]);
	CHECK(PARSE("--env=A=b=c", "x") == 0 && strcmp(args.env.v[0], "A=b=c") == 0);
	CHECK(PARSE("-m", "1G", "-m", "2G", "x") == 0 && strcmp(args.one[RUN_MEMORY], "2G") == 0);
}

TEST(wrong_words)
{
	CHECK(PARSE("--memroy", "1", "x") < 0 && SAYS("'--memroy': did you mean --memory?"));
	CHECK(PARSE("--mem", "1", "x") < 0 && SAYS("unknown option '--mem'")); /* no abbreviation */
	CHECK(PARSE("--memory") < 0 && SAYS("--memory needs a value"));
	CHECK(PARSE("--json=1", "x") < 0 && SAYS("--json takes no value"));
	CHECK(PARSE("-Z", "x") < 0 && SAYS("unknown option '-Z'"));
	CHECK(PARSE("-iZ", "x") < 0 && SAYS("unknown option '-Z'"));
	CHECK(PARSE("-m") < 0 && SAYS("-m needs a value"));
	CHECK(PARSE("--=x", "x") < 0 && SAYS("unknown option"));
	CHECK(PARSE("--\033[31m", "x") < 0 && strchr(err.msg, '\033') == NULL);
	CHECK(PARSE("--json") < 0 && SAYS("no command"));
	CHECK(PARSE("--") < 0 && SAYS("no command"));
	CHECK(PARSE("") < 0 && SAYS("empty"));
	CHECK(PARSE("--memory=", "x") < 0 && SAYS("--memory: the value is empty"));
	CHECK(PARSE("--env", "A", "x") < 0 && SAYS("NAME=VALUE"));
	CHECK(PARSE("--env", "=A", "x") < 0 && SAYS("--env"));
	CHECK(PARSE("--require", "limits,lndlock", "x") < 0 && SAYS("'landlock'"));
	CHECK(PARSE("-t", "--json", "x") < 0 && SAYS("exclude each other"));
}

TEST(settings_are_checked_with_their_option)
{
	CHECK(LOADS("--memory", "256M", "--cpus", "0.5", "--pids", "9", "x"));
	CHECK(args.spec.memory == 256ULL << 20 && args.spec.disk == 192ULL << 20);
	CHECK(args.spec.cpu_milli == 500 && args.spec.pids == 9);
	CHECK(strcmp(args.spec.tier, "container") == 0 && strcmp(args.spec.image, "host") == 0);
	CHECK(!LOADS("--memory", "256Q", "x") && SAYS("--memory '256Q': character 4"));
	CHECK(!LOADS("--timeout", "400d", "x") && SAYS("--timeout: longer"));
	CHECK(!LOADS("--disk", "2G", "x") && SAYS("--disk: 2 GiB"));
	CHECK(!LOADS("--tier", "contaner", "x") && SAYS("did you mean 'container'"));
	CHECK(!LOADS("--tier", "auto", "x") && SAYS("tier: 'auto'"));
	CHECK(!LOADS("--image", "/no/such/folder", "x") && SAYS("--image '/no/such/folder'"));
	CHECK(!LOADS("--root", "rw", "x") && SAYS("--root: 'rw'"));
	CHECK(!LOADS("--profile", "/no/such", "x") && SAYS("profile '/no/such'"));
}

TEST(environment)
{
	CHECK(LOADS("-e", "A=1", "-e", "A=2", "x"));
	CHECK(args.spec.env.n == 2 && strcmp(args.spec.env.v[0], "LANG=C.UTF-8") == 0);
	CHECK(strcmp(args.spec.env.v[1], "A=2") == 0);
	CHECK(setenv("BRIG_TEST_SECRET", "hunter2", 1) == 0);
	CHECK(LOADS("--secret-env", "BRIG_TEST_SECRET", "x"));
	CHECK(args.spec.env.n == 1); /* never among what is shown */
	CHECK(args.secrets.n == 1 && strcmp(args.secrets.v[0], "BRIG_TEST_SECRET=hunter2") == 0);
	CHECK(!LOADS("--secret-env", "BRIG_TEST_NOT_SET", "x") && SAYS("no such variable"));
	CHECK(!LOADS("--secret-env", "A=hunter2", "x") && strstr(err.msg, "hunter2") == NULL);
}

static int in_is(const char *word, const char *left, const char *right)
{
	struct path_pair p = {NULL, NULL};
	int ok;

	err = ERR_INIT;
	if (parse_file_in(word, &p, &err) < 0)
		return left == NULL;
	ok = left != NULL && strcmp(p.left, left) == 0 && strcmp(p.right, right) == 0;
	if (!ok)
		printf("# %s: %s %s\n", word, p.left, p.right);
	path_pair_done(&p);
	return ok;
}

TEST(files_in)
{
	CHECK(in_is("a/b.txt", "a/b.txt", "/workspace/b.txt"));
	CHECK(in_is("a/b/", "a/b/", "/workspace/b"));
	CHECK(in_is(".", ".", "/workspace"));
	CHECK(in_is("..", "..", "/workspace"));
	CHECK(in_is("a:x", "a", "/workspace/x"));
	CHECK(in_is("a:/tmp//x/./y/", "a", "/tmp/x/y"));
	CHECK(in_is("a:/", "a", "/"));
	CHECK(in_is("we:ird:x", "we:ird", "/workspace/x"));
	CHECK(in_is("a:", NULL, NULL) && SAYS("SRC"));
	CHECK(in_is(":b", NULL, NULL));
	CHECK(in_is("a:../b", NULL, NULL) && SAYS("'..'"));
	CHECK(in_is("a:/x/../../etc", NULL, NULL) && SAYS("'..'"));
}

TEST(files_out)
{
	struct path_pair p = {NULL, NULL};

	CHECK(parse_file_out("build/x:out", &p, &err) == 0);
	CHECK(strcmp(p.left, "/workspace/build/x") == 0 && strcmp(p.right, "out") == 0);
	path_pair_done(&p);
	CHECK(parse_file_out("x", &p, &err) < 0 && SAYS("PATH:DST"));
	CHECK(parse_file_out("x:", &p, &err) < 0);
	CHECK(parse_file_out(":x", &p, &err) < 0);
	CHECK(parse_file_out("../x:y", &p, &err) < 0 && SAYS("'..'"));
}

TEST(tables_are_complete)
{
	CHECK(command_find("run") != NULL && command_find("nope") == NULL);
	for (unsigned int c = 0; c < commands_n; c++) {
		const struct command_impl *impl = commands[c].impl;

		CHECK(impl->run != NULL && commands[c].summary[0] >= 'a');
		for (unsigned int i = 0; i < impl->nopts; i++) {
			const struct opt *o = &impl->opts[i];

			CHECK(o->id > 0 && o->name[0] != '\0' && o->help[0] != '\0');
			CHECK((o->value == VAL_NONE) == (o->arg[0] == '\0'));
			CHECK((o->value == VAL_WORDS) == (o->words != NULL && o->words[0] != '\0'));
			for (unsigned int k = 0; k < i; k++) {
				CHECK(strcmp(o->name, impl->opts[k].name) != 0);
				CHECK(o->letter == '\0' || o->letter != impl->opts[k].letter);
			}
		}
	}
	run_args_done(&args);
}
TEST_MAIN()

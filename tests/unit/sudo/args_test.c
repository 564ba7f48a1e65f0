#include "sudo/sudo.h"

#include "harness/test.h"
#include "wire/request.h"
#include "wire/sudo.h"

#include <errno.h>
#include <string.h>

#define ARGS(...) ((const char *[]){__VA_ARGS__, NULL})

static struct sudo_args got;
static char why[128];

static int parse(const char *const *argv) { return sudo_args_parse(argv, &got, why, sizeof(why)); }
static bool refused(const char *const *argv, const char *text) { return parse(argv) == -EINVAL && strcmp(why, text) == 0; }

TEST(a_command_and_its_own_options)
{
	CHECK(parse(ARGS("ls", "-l", "-u")) == 0);
	CHECK(got.mode == SUDO_RUN && strcmp(got.user, "root") == 0 && !got.keep_env && got.assign_n == 0);
	CHECK(strcmp(got.argv[0], "ls") == 0 && strcmp(got.argv[2], "-u") == 0 && got.argv[3] == NULL);
	CHECK(parse(ARGS("-n", "--", "-x")) == 0 && strcmp(got.argv[0], "-x") == 0);
	CHECK(parse(ARGS("-")) == 0 && strcmp(got.argv[0], "-") == 0);
}

TEST(options_in_all_their_forms)
{
	CHECK(parse(ARGS("-u", "www", "id")) == 0 && strcmp(got.user, "www") == 0 && strcmp(got.argv[0], "id") == 0);
	CHECK(parse(ARGS("-uwww", "id")) == 0 && strcmp(got.user, "www") == 0);
	CHECK(parse(ARGS("-nHEu", "www", "id")) == 0 && got.keep_env && got.set_home && strcmp(got.user, "www") == 0);
	CHECK(parse(ARGS("--user=www", "id")) == 0 && strcmp(got.user, "www") == 0);
	CHECK(parse(ARGS("--user", "www", "id")) == 0 && strcmp(got.user, "www") == 0 && strcmp(got.argv[0], "id") == 0);
	CHECK(parse(ARGS("-u", "#7", "id")) == 0 && strcmp(got.user, "7") == 0);
	CHECK(parse(ARGS("-H", "-S", "-n", "-p", "[via] password:", "-u", "root", "/bin/sh")) == 0);
	CHECK(strcmp(got.argv[0], "/bin/sh") == 0);
	CHECK(parse(ARGS("--preserve-env", "id")) == 0 && got.keep_env && got.keep == NULL);
	CHECK(parse(ARGS("--preserve-env=A,B", "id")) == 0 && !got.keep_env && strcmp(got.keep, "A,B") == 0);
	CHECK(parse(ARGS("A=1", "B=", "id", "C=3")) == 0 && got.assign_n == 2 && strcmp(got.argv[1], "C=3") == 0);
	CHECK(parse(ARGS("1=1")) == 0 && got.assign_n == 0);
}

TEST(what_needs_no_command)
{
	CHECK(parse(ARGS("-i")) == 0 && got.mode == SUDO_LOGIN);
	CHECK(parse(ARGS("-s")) == 0 && got.mode == SUDO_SHELL);
	CHECK(parse(ARGS("-l")) == 0 && got.mode == SUDO_LIST);
	CHECK(parse(ARGS("-v")) == 0 && got.mode == SUDO_VALIDATE);
	CHECK(parse(ARGS("-k")) == 0 && got.mode == SUDO_FORGET);
	CHECK(parse(ARGS("-K")) == 0 && got.mode == SUDO_FORGET);
	CHECK(parse(ARGS("-k", "id")) == 0 && got.mode == SUDO_RUN);
	CHECK(parse(ARGS("--help")) == 0 && got.mode == SUDO_HELP);
	CHECK(parse(ARGS("-V")) == 0 && got.mode == SUDO_VERSION_TEXT);
}

TEST(refusals_name_what_they_refuse)
{
	CHECK(refused(ARGS("-b", "id"), "option '-b' is not known here"));
	CHECK(refused(ARGS("-n\x1b", "id"), "option '-?' is not known here"));
	CHECK(refused(ARGS("--group=x", "id"), "option '--group=x' is not known here"));
	CHECK(refused(ARGS("--login=x"), "option '--login=x' is not known here"));
	CHECK(refused(ARGS("-u"), "option '-u' needs an argument"));
	CHECK(refused(ARGS("--user"), "option 'user' needs an argument"));
	CHECK(refused(ARGS("-u", "", "id"), "unknown user "));
	CHECK(refused(ARGS("-u", "0", "id"), "unknown user 0"));
	CHECK(refused(ARGS("-u", "#x", "id"), "unknown user #x"));
	CHECK(refused(ARGS("-u", "root:root", "id"), "unknown user root:root"));
	CHECK(refused(ARGS("-iE"), "you may not specify both the -i and -E options"));
	CHECK(refused(ARGS("-v", "id"), "this option and a command exclude each other"));
	CHECK(refused(ARGS("-n"), "no command given; 'sudo --help' says how"));
	CHECK(refused(ARGS("-il"), "only one of -h, -i, -K, -k, -l, -s, -V and -v may be given"));
}

TEST(the_environment_is_reset)
{
	CHECK(parse(ARGS("id")) == 0);
	CHECK(sudo_keeps(&got, "TERM=xterm") && sudo_keeps(&got, "LC_ALL=C") && sudo_keeps(&got, "LANG="));
	CHECK(!sudo_keeps(&got, "TERMX=1") && !sudo_keeps(&got, "HOME=/x") && !sudo_keeps(&got, "FOO=1"));
	CHECK(!sudo_keeps(&got, "TERM") && !sudo_keeps(&got, "=x") && !sudo_keeps(&got, ""));
	CHECK(parse(ARGS("-E", "id")) == 0);
	CHECK(sudo_keeps(&got, "HOME=/x") && sudo_keeps(&got, "FOO=1"));
	CHECK(!sudo_keeps(&got, "PATH=/x") && !sudo_keeps(&got, "USER=x") && !sudo_keeps(&got, "SUDO_UID=1"));
	CHECK(parse(ARGS("-EH", "id")) == 0 && !sudo_keeps(&got, "HOME=/x"));
	CHECK(parse(ARGS("--preserve-env=FOO,HOME", "id")) == 0);
	CHECK(sudo_keeps(&got, "FOO=1") && sudo_keeps(&got, "HOME=/x") && !sudo_keeps(&got, "FO=1") && !sudo_keeps(&got, "BAR=1"));
	CHECK(parse(ARGS("-E", "FOO=2", "id")) == 0 && !sudo_keeps(&got, "FOO=1") && sudo_keeps(&got, "FOOO=1"));
}

TEST(words_for_a_shell)
{
	char *q = sudo_quote(ARGS("a b", "$x", "-n_1", "it's"));

	CHECK(q != NULL && strcmp(q, "a\\ b $x -n_1 it\\'s") == 0);
	free(q);
}

/* The request of argv: its ARG fields joined by '|', and what became of it. */
static int ask(const char *const *argv, char *const *env, char *words, size_t size)
{
	struct user u = {.shell = "/bin/bash"};
	struct buf b = {.max = SUDO_REQUEST_MAX};
	struct msg_reader r;
	struct msg_item it;
	size_t n = 0;
	int rc = parse(argv);

	if (rc == 0)
		rc = sudo_request(&got, env, 0077, &u, "/bin/zsh", "/usr/bin/x", &b);
	if (rc == 0)
		rc = sudo_request_check(buf_head(&b), b.len);
	r = msg_reader(buf_head(&b), b.len);
	while (msg_next(&r, &it) > 0) {
		if (it.field == F_UMASK && it.u64 != 0077)
			rc = -ERANGE;
		if (it.field != F_ARG || n + it.len + 2 > size)
			continue;
		memcpy(words + n, it.data, it.len);
		n += it.len;
		words[n++] = '|';
	}
	words[n] = '\0';
	buf_done(&b);
	return rc;
}

TEST(requests_are_what_pid_1_takes)
{
	static char big[140000];
	char words[256], term[] = "TERM=x", user[] = "SUDO_USER=a", odd[] = "odd", *env[] = {term, user, odd, NULL};

	CHECK(ask(ARGS("-E", "SUDO_UID=0", "x", "", "y"), env, words, sizeof(words)) == 0 && strcmp(words, "x||y|") == 0);
	CHECK(ask(ARGS("-l"), env, words, sizeof(words)) == 0 && strcmp(words, "") == 0);
	CHECK(ask(ARGS("-i"), env, words, sizeof(words)) == 0 && strcmp(words, "/bin/bash|-l|") == 0);
	CHECK(ask(ARGS("-i", "a b"), env, words, sizeof(words)) == 0 && strcmp(words, "/bin/bash|-l|-c|a\\ b|") == 0);
	CHECK(ask(ARGS("-s"), env, words, sizeof(words)) == 0 && strcmp(words, "/bin/zsh|") == 0);
	CHECK(ask(ARGS("-s", "id"), env, words, sizeof(words)) == 0 && strcmp(words, "/bin/zsh|-c|id|") == 0);
	memset(big, 'a', sizeof(big) - 1);
	CHECK(ask(ARGS(big), env, words, sizeof(words)) == -E2BIG);
}

TEST_MAIN()

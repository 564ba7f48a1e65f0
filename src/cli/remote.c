#include "cli/remote.h"

#include "base/cleanup.h"
#include "cmd/say.h"
#include "spawn/program.h"
#include "sys/call.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The program is opened by program_find, which refuses one that others could change, and executed
 * by that descriptor. */

/* Become `brig-client WORDS...`; words[n] is NULL. Returns on failure only. */
static int become(char **words, int n, struct err *e)
{
	_cleanup_free_ char **argv = calloc((size_t)n + 2, sizeof(char *));
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX], name[] = "brig-client";
	bool ours;
	int r = program_find(name, path, sizeof(path), &fd, &ours, e);

	if (argv == NULL)
		return err_no_memory(e);
	if (r < 0)
		return r;
	argv[0] = name;
	memcpy(argv + 1, words, ((size_t)n + 1) * sizeof(char *));
	r = sys_execveat(fd, argv, environ);
	return err_set(e, ERR_INTERNAL, -r, "%s: %s", path, strerror(-r));
}

static int remote_run(int argc, char **argv)
{
	struct err e = ERR_INIT;

	(void)become(argv, argc, &e);
	return say_err(&e);
}

int remote_help(const struct command *c)
{
	char name[32], option[] = "--help";
	char *argv[] = {name, option, NULL};

	(void)snprintf(name, sizeof(name), "%s", c->name);
	return remote_run(2, argv);
}

int remote_completion(const char *shell)
{
	char name[] = "completion", word[16];
	char *argv[] = {name, word, NULL};
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX];
	int status = -1;
	bool ours;
	pid_t pid;

	if (program_find("brig-client", path, sizeof(path), &fd, &ours, NULL) < 0)
		return 0; /* an installation without it has nothing to say there */
	(void)snprintf(word, sizeof(word), "%s", shell);
	if (fflush(stdout) != 0)
		return EXIT_FAULT;
	pid = fork();
	if (pid == 0)
		_exit(remote_run(2, argv));
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAULT;
}

const struct command_impl command_remote = {.run = remote_run, .words = ""};

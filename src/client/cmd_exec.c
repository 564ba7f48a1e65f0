/* `brig exec`: the words of the command line; remote_exec.c runs it. */
#include "base/num.h"
#include "base/units.h"
#include "client/client.h"
#include "client/remote_exec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPT_WANT_EXEC
#define OPT_WANT_USER
#include "client/options.h"

static int take_timeout(struct remote_exec *x, const char *value, struct err *e)
{
	int r = units_duration(value, &x->timeout_ms, e);

	if (r < 0)
		return err_wrap(e, r, "--timeout");
	if (x->timeout_ms > 9999999999u) /* ten digits are the protocol's limit */
		return err_set(e, ERR_INVALID, ERANGE,
			       "--timeout: at most 9999999999ms are possible");
	return 0;
}

static int take(void *arg, int id, const char *value, struct err *e)
{
	struct remote_exec *x = arg;

	switch (id) {
	case O_ENV:
		return client_pair(x->env, value, "--env", e);
	case O_CWD:
		x->cwd = value;
		return 0;
	case O_USER:
		x->user = value;
		return 0;
	case O_TIMEOUT:
		return take_timeout(x, value, e);
	default:
		x->interactive = x->interactive || id == O_INTERACTIVE;
		x->tty = x->tty || id == O_TTY;
		return 0;
	}
}

static int exec_it(struct client *c, struct remote_exec *x, char **argv, int *ret, struct err *e)
{
	struct box_ref *b = calloc(1, sizeof(*b));
	int r = b == NULL ? err_no_memory(e) : 0;

	if (r == 0 && x->tty && x->interactive && !isatty(STDIN_FILENO))
		r = err_set(e, ERR_INVALID, ENOTTY,
			    "--tty: standard input is no terminal (without -i it needs none)");
	if (r == 0)
		r = client_open(c, e);
	if (r == 0)
		r = api_find(c, argv[1], true, b, e);
	if (r == 0) {
		x->argv = (const char *const *)(argv + 2);
		r = remote_exec(c, b, x, ret, e);
	}
	free(b);
	return r;
}

static int exec_run(int argc, char **argv)
{
	struct remote_exec x = {.env = json_object()};
	struct client c = {.http = {.multi = NULL}};
	struct err e = ERR_INIT;
	int r, code = 0;

	r = client_options(&c, opts, ARRAY_LEN(opts), argv, 1, take, &x, &e);
	if (r >= 0)
		r = client_count(r, 2, argc,
				 "a sandbox and a command are wanted: brig exec ID -- ls -l", &e);
	if (r >= 0)
		r = exec_it(&c, &x, argv, &code, &e);
	json_decref(x.env);
	return client_end(&c, "exec", r < 0 ? r : code, &e);
}

const struct command_impl client_exec = {
    .run = exec_run,
    .opts = opts,
    .nopts = ARRAY_LEN(opts),
    .words = "SANDBOXES",
    .notes = "ID is a sandbox, or the beginning of one. The exit status is the command's, 128+N "
	     "when signal N\n"
	     "ended it, 124 at the end of --timeout, 126 or 127 when it cannot be run, 125 for "
	     "everything else.\n"
	     "INT, TERM, HUP and QUIT are passed on; a second INT within two seconds ends "
	     "everything it started.\n",
};

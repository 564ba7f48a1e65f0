/*
 * `brig key`: keys are made on the daemon's machine by whoever may write its state, as `brigd key`
 * does; brig only finds brigd and becomes it. So no key is made over the network, no scope of a key
 * can make others, and a daemon that is taken over by its callers' requests has no request for it.
 */
#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "client/client.h"
#include "cmd/say.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OPT_NO_DAEMON
#define OPT_WANT_KEY
#define OPT_WANT_JSON
#include "client/options.h"

struct words {
	char *argv[24]; /* borrowed */
	int n;
};

static void add(struct words *w, const char *s)
{
	if (w->n + 1 < (int)ARRAY_LEN(w->argv))
		memcpy(&w->argv[w->n++], &s, sizeof(s)); /* execv(3) changes none of them */
}

static int take(void *arg, int id, const char *value, struct err *e)
{
	static const char *const names[] = {
	    [O_CONFIG] = "--config", [O_DIR] = "--state",     [O_TENANT] = "--tenant",
	    [O_NAME] = "--name",     [O_SCOPES] = "--scopes", [O_EXPIRES] = "--expires",
	    [O_JSON] = "--json",     [O_HELP] = "--help"};
	struct words *w = arg;

	if (w->n + 3 > (int)ARRAY_LEN(w->argv))
		return err_set(e, ERR_INVALID, EINVAL, "each option can be given once");
	add(w, names[id]);
	if (value != NULL)
		add(w, value);
	return 0;
}

/* brigd is where `make install` puts it, or beside us in a build. */
static int become(struct words *w, struct err *e)
{
	char path[PATH_MAX], q[QUOTE_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 16);
	char *slash;

	path[n > 0 ? n : 0] = '\0';
	slash = strrchr(path, '/');
	if (slash != NULL) {
		memcpy(slash + 1, "brigd", 6);
		(void)execv(path, w->argv);
	}
	(void)execv(BRIG_SBINDIR "/brigd", w->argv);
	return err_set(e, ERR_NOT_FOUND, errno,
		       "brigd: %s: keys are made on the daemon's machine (looked in %s)",
		       strerror(errno), quote_bare(BRIG_SBINDIR, q));
}

static int key_run(int argc, char **argv)
{
	struct words w = {.n = 0};
	struct err e = ERR_INIT;
	int r;

	(void)argc;
	add(&w, "brigd");
	r = client_options(NULL, opts, ARRAY_LEN(opts), argv, -1, take, &w, &e);
	if (r > 0 && strcmp(argv[1], "revoke") == 0)
		r = client_count(r, 2, 2, "revoke: name one key, as 'brig key list' shows it", &e);
	else if (r > 0 && (strcmp(argv[1], "create") == 0 || strcmp(argv[1], "list") == 0))
		r = client_count(r, 1, 1, "it takes no operands", &e);
	else if (r >= 0)
		r = err_set(&e, ERR_INVALID, EINVAL, "create, list or revoke KEY is wanted");
	if (r < 0)
		return say_usage("key", &e);
	add(&w, "key");
	add(&w, strcmp(argv[1], "revoke") == 0 ? "remove" : argv[1]);
	if (argv[2] != NULL)
		add(&w, argv[2]);
	(void)become(&w, &e);
	return say_err(&e);
}

const struct command_impl client_key = {
    .run = key_run,
    .opts = opts,
    .nopts = ARRAY_LEN(opts),
    .words = "create list revoke",
    .notes = "Keys are in the daemon's state folder, so this is for whoever may write there (root, "
	     "or the\n"
	     "daemon's user), on its machine. 'create' prints the key, once; 'revoke' takes the "
	     "name that\n"
	     "'list' shows first. Both hold at once, also for a daemon that runs.\n",
};

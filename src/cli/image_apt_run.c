#include "cli/image_apt_priv.h"
/*
 * Running apt. Its messages are a person's and not an interface, so they only decide how a failure
 * is worded, never whether it is one: that is the exit code's. They hold words of mirrors: quoted.
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "cmd/say.h"
#include "sys/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	OUT_MAX = 4 * 1024 * 1024,
	TEXT_MAX = 1024,
	STATUS_FD = 3,
	LOOK_MS = 250,
	FULL_LOOKS = 8,
	ROOM_MIN = 64 * 1024
};
static const char no_room[] =
    "E: No space left on device\n"; /* as apt would say it; a row of known[] */

static _Noreturn void child(const struct apt_run *run, int out, int status, pid_t parent)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) < 0 || getppid() != parent || null < 0 ||
	    dup2(null, 0) < 0)
		_exit(127);
	/* status may be 1 or 2 only if the caller started without them, which brig's main refuses
	 */
	if (dup2(out, 1) < 0 || dup2(run->quiet ? null : out, 2) < 0)
		_exit(127);
	if (status == STATUS_FD ? fcntl(status, F_SETFD, 0) < 0 : dup2(status, STATUS_FD) < 0)
		_exit(127);
	(void)setenv("LC_ALL", "C.UTF-8", 1);
	if (run->config != NULL)
		(void)setenv("APT_CONFIG", run->config, 1);
	(void)execv(run->program, run->args.v);
	_exit(127);
}

/* "dlstatus:1:23.4567:Retrieving file 1 of 3": the last whole line of what came. */
static void show(const char *doing, const char *text)
{
	const char *at = NULL;
	char line[128];
	int percent = 0;

	for (const char *p = text; (p = strstr(p, "dlstatus:")) != NULL; p++)
		at = p;
	if (at == NULL || sscanf(at, "dlstatus:%*d:%d", &percent) != 1)
		return;
	(void)snprintf(line, sizeof(line), "%s: %d %%", doing, percent);
	say_status(line, false);
}

/* apt's http method, when it cannot write, forgets what it was asked for, and both wait for each
 * other for ever. So apt is ended when the disk was found full at several looks in a row, while it
 * went on or not. */
static bool is_full(const struct apt_run *run)
{
	struct statvfs fs;

	return run->disk != NULL && statvfs(run->disk, &fs) == 0 &&
	       (uint64_t)(geteuid() == 0 ? fs.f_bfree : fs.f_bavail) * fs.f_frsize < ROOM_MIN;
}

/* Both pipes to their ends. */
static void collect(const struct apt_run *run, pid_t pid, int out, int status, struct buf *b)
{
	struct pollfd p[2] = {{.fd = out, .events = POLLIN}, {.fd = status, .events = POLLIN}};
	uint64_t look = 0;
	char text[4096];
	int full = 0;

	while (p[0].fd >= 0 || p[1].fd >= 0) {
		int n = poll(p, 2, full < FULL_LOOKS ? LOOK_MS : -1);

		if (n < 0 && errno != EINTR)
			return;
		if (full < FULL_LOOKS && loop_clock_ms() >= look) {
			look = loop_clock_ms() + LOOK_MS;
			full = is_full(run) ? full + 1 : 0;
			if (full == FULL_LOOKS) {
				(void)kill(pid, SIGTERM);
				(void)!buf_put(b, no_room, sizeof(no_room) - 1);
			}
		}
		for (int i = 0; i < 2; i++) {
			ssize_t len;

			if (n <= 0 || p[i].fd < 0 || p[i].revents == 0)
				continue;
			len = read(p[i].fd, text, sizeof(text) - 1);
			if (len <= 0) {
				p[i].fd = len < 0 && errno == EINTR ? p[i].fd : -1;
				continue;
			}
			text[len] = '\0';
			if (i == 1 && run->doing != NULL)
				show(run->doing, text);
			if (i == 0)
				(void)!buf_put(
				    b, text,
				    (size_t)
					len); /* longer than any list: what follows is left out */
		}
	}
}

int apt_run(struct apt_run *run, char **out, struct err *e)
{
	int o[2] = {-1, -1}, s[2] = {-1, -1}, status = 0, r = 0;
	pid_t parent = getpid(), pid = -1;
	struct buf b;

	buf_init(&b, OUT_MAX);
	if (run->doing != NULL)
		say_status(run->doing, false);
	if (strv_add(&run->args, "-oAPT::Status-Fd=3") < 0 || pipe2(o, O_CLOEXEC) < 0 ||
	    pipe2(s, O_CLOEXEC) < 0 || (pid = fork()) < 0)
		r = err_set(e, ERR_INTERNAL, errno, "starting %s: %s", run->program,
			    strerror(errno));
	if (pid == 0)
		child(run, o[1], s[1], parent);
	if (o[1] >= 0)
		(void)close(o[1]);
	if (s[1] >= 0)
		(void)close(s[1]);
	if (r == 0)
		collect(run, pid, o[0], s[0], &b);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
	}
	if (o[0] >= 0)
		(void)close(o[0]);
	if (s[0] >= 0)
		(void)close(s[0]);
	if (run->doing != NULL)
		say_status(NULL, false);
	run->failed = r == 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	if (r == 0 &&
	    (*out = b.len > 0 ? strndup((const char *)buf_head(&b), b.len) : strdup("")) == NULL)
		r = err_no_memory(e);
	if (r == 0 && run->failed)
		r = err_set(e, ERR_INVALID, EINVAL, "%s failed", run->program);
	buf_done(&b);
	return r;
}

/* The line of the recipe that asks for a package; of the list when a dependency or the command line
 * does. */
static int line_of(const struct recipe *r, const char *name, size_t n)
{
	for (uint32_t i = 0; i < r->packages.n; i++)
		if (strncmp(r->packages.v[i], name, n) == 0 &&
		    (r->packages.v[i][n] == '\0' || r->packages.v[i][n] == '='))
			return r->package_line[i];
	return r->line[RECIPE_PACKAGES];
}

/* The first line with `what` in it, else NULL; *ret_after: behind `what`. */
static const char *find_line(const char *text, const char *what, char line[TEXT_MAX],
			     const char **ret_after)
{
	const char *at = strstr(text, what), *from = at;
	char *in;

	if (at == NULL)
		return NULL;
	while (from > text && from[-1] != '\n')
		from--;
	(void)snprintf(line, TEXT_MAX, "%.*s", (int)strcspn(from, "\n"), from);
	in = strstr(line, what);
	*ret_after = in != NULL ? in + strlen(what) : line;
	at = line[0] != '\0' && line[1] == ':' && line[2] == ' ' ? line + 3 : line;
	return at + strspn(at, " ");
}

/* Beginnings of apt's sentences, the key of the recipe they concern, and what a person can do about
 * it. In this order: an unsigned archive also has no Packages file, and without a network
 * everything fails. */
static const struct {
	const char *says;
	enum err_kind kind;
	enum recipe_key key;
	const char *what, *hint;
} known[] = {
    {"Temporary failure resolving", ERR_NOT_FOUND, RECIPE_MIRRORS, "no network",
     "give mirrors, --mirror or apt's http_proxy if there is a way"},
    {"Could not resolve", ERR_NOT_FOUND, RECIPE_MIRRORS, "no network",
     "give mirrors, --mirror or apt's http_proxy if there is a way"},
    {"Could not connect", ERR_NOT_FOUND, RECIPE_MIRRORS, "the mirror cannot be reached",
     "give another by mirrors or --mirror"},
    {"Unable to connect", ERR_NOT_FOUND, RECIPE_MIRRORS, "the mirror cannot be reached",
     "give another by mirrors or --mirror"},
    {"onnection timed out", ERR_NOT_FOUND, RECIPE_MIRRORS, "the mirror cannot be reached",
     "give another by mirrors or --mirror"},
    {"No space left on device", ERR_LIMITED, RECIPE_KEY_COUNT, "the disk of the cache is full",
     "BRIG_CACHE names another folder"},
    {"enough free space", ERR_LIMITED, RECIPE_KEY_COUNT, "the disk of the cache is full",
     "BRIG_CACHE names another folder"},
    {"does not have a Release file", ERR_INVALID, RECIPE_SUITE, "the mirror has no such suite",
     "check suite and mirrors"},
    {"NO_PUBKEY", ERR_INVALID, RECIPE_KEYRING,
     "the archive is signed by a key that is not in the keyring", "check keyring and mirrors"},
    {"BADSIG", ERR_INVALID, RECIPE_KEYRING, "the archive's signature is wrong",
     "somebody changed it: use another mirror"},
    {"EXPKEYSIG", ERR_INVALID, RECIPE_KEYRING, "the archive's key has expired",
     "renew the keyring"},
    {"is not signed", ERR_INVALID, RECIPE_KEYRING, "the archive is not signed",
     "only signed archives are taken"},
    {"signature verification", ERR_INVALID, RECIPE_KEYRING, "the archive's signature is wrong",
     "check keyring and mirrors"},
    {"Release file for", ERR_INVALID, RECIPE_MIRRORS, "the archive's state is out of date",
     "use another mirror, or snapshot"},
    {"Hash Sum mismatch", ERR_INVALID, RECIPE_MIRRORS,
     "the mirror's file is not what the archive signed", "try again, or another mirror"},
    {"404  Not Found", ERR_INVALID, RECIPE_MIRRORS, "the mirror lacks a file",
     "check suite and mirrors"},
};

int apt_explain(const char *text, const struct recipe *r, const char *file, struct err *e)
{
	static const char *const unknown[] = {"Unable to locate package ",
					      "Couldn't find any package by regex '",
					      "Couldn't find any package by glob '"};
	char line[TEXT_MAX], at[96], q[QUOTE_MAX], q2[QUOTE_MAX];
	const char *after = NULL, *words;

	for (size_t i = 0; i < ARRAY_LEN(unknown); i++) {
		if (find_line(text, unknown[i], line, &after) == NULL)
			continue;
		words = quote_n(after, strcspn(after, " '"), q);
		return err_set(e, ERR_NOT_FOUND, ENOENT, "%.100s:%d: packages: no package %s in %s",
			       file, line_of(r, after, strcspn(after, " '")), words, r->suite);
	}
	if (find_line(text, "E: Package '", line, &after) != NULL)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "%.100s:%d: packages: no package %s in %s",
			       file, line_of(r, after, strcspn(after, "'")),
			       quote_n(after, strcspn(after, "'"), q), r->suite);
	if (find_line(text, "E: Version '", line, &after) != NULL) {
		const char *name = strstr(after, "' for '");

		name = name != NULL ? name + strlen("' for '") : "";
		return err_set(e, ERR_NOT_FOUND, ENOENT,
			       "%.100s:%d: packages: %s has no version %s here (any more): "
			       "snapshot has old ones",
			       file, line_of(r, name, strcspn(name, "'")),
			       quote_n(name, strcspn(name, "'"), q),
			       quote_n(after, strcspn(after, "'"), q2));
	}
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		int where = known[i].key == RECIPE_KEY_COUNT ? 0 : r->line[known[i].key];

		words = find_line(text, known[i].says, line, &after);
		if (words == NULL)
			continue;
		(void)snprintf(at, sizeof(at), where > 0 ? "%.80s:%d" : "%.80s", file, where);
		return err_set(e, known[i].kind, EINVAL, "%s: %s: %s (apt: %s)", at, known[i].what,
			       known[i].hint, quote_bare(words, q));
	}
	words = find_line(text, "E: ", line, &after);
	return err_set(e, ERR_INVALID, EINVAL, "%.100s: apt-get: %s", file,
		       words != NULL ? quote_bare(words, q) : "failed");
}

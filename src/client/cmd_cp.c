/* `brig cp SRC DST`: what the two names mean. As with cp(1), a destination that is a folder gets
 * SRC under its own name, and "SRC/." is what is in it. */
#include "base/num.h"
#include "base/quote.h"
#include "base/units.h"
#include "client/client.h"
#include "client/copying.h"
#include "cmd/say.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define OPT_WANT_COPY
#define OPT_WANT_USER
#include "client/options.h"

static int take(void *arg, int id, const char *value, struct err *e)
{
	struct copying *k = arg;

	if (id == O_MAX_SIZE) {
		int r = units_size(value, &k->max_bytes, e);

		return r < 0 ? err_wrap(e, r, "--max-size") : 0;
	}
	if (id == O_USER)
		k->user = value;
	k->quiet = k->quiet || id == O_QUIET;
	return 0;
}

static int no_name(const char *path, struct err *e)
{
	char q[QUOTE_MAX];

	return err_set(
	    e, ERR_INVALID, EINVAL,
	    "%s has no name of its own to be copied under: name the folder, or use PATH/.",
	    quote(path, q));
}

static bool ends_with_slash(const char *s)
{
	size_t n = strlen(s);

	return n > 0 && s[n - 1] == '/';
}

static int join(const char *folder, const char *name, char dst[PATH_MAX], struct err *e)
{
	int n = snprintf(dst, PATH_MAX, "%s%s%s", folder,
			 folder[0] == '\0' || ends_with_slash(folder) ? "" : "/", name);

	return n < 0 || n >= PATH_MAX
		   ? err_set(e, ERR_INVALID, ENAMETOOLONG, "the path is too long")
		   : 0;
}

static int copy_in(const struct copying *k, const char *src, const char *path, struct err *e)
{
	char name[256], to[PATH_MAX];
	int r;

	if (strcmp(src, "-") == 0)
		return copying_stdin(k, path, e);
	if (copying_name(src, name) < 0)
		return no_name(src, e);
	r = ends_with_slash(path) ? 1 : copying_is_folder(k, path, e);
	if (r < 0)
		return r;
	if (r > 0 && name[0] != '\0') {
		r = join(path, name, to, e);
		return r < 0 ? r : copying_in(k, src, to, e);
	}
	return copying_in(k, src, path, e);
}

static int copy_out(const struct copying *k, const char *path, const char *dst, struct err *e)
{
	char name[256], to[PATH_MAX], q[QUOTE_MAX];
	struct stat st;
	bool folder;
	int r;

	if (strcmp(dst, "-") == 0)
		return copying_stdout(k, path, e);
	if (copying_name(path, name) < 0)
		return no_name(path, e);
	folder = stat(dst, &st) == 0 && S_ISDIR(st.st_mode);
	if (ends_with_slash(dst) && !folder)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "%s is no folder", quote(dst, q));
	if (!folder || name[0] == '\0')
		return copying_out(k, path, dst, name[0] != '\0' ? name : "root", e);
	r = join(dst, name, to, e);
	return r < 0 ? r : copying_out(k, path, to, name, e);
}

static int copy(struct client *c, struct copying *k, const char *src, const char *dst,
		struct err *e)
{
	struct box_ref *b = calloc(1, sizeof(*b));
	const char *from = NULL, *to = NULL;
	char id[BOX_ID_MAX + 1];
	size_t n = 0;
	bool out = copying_split(src, &n, &from), in;
	size_t in_n = 0;
	int r = 0;

	in = copying_split(dst, &in_n, &to);
	if (b == NULL)
		r = err_no_memory(e);
	else if (out && in)
		r = err_set(
		    e, ERR_INVALID, EINVAL,
		    "one of both must be here: copy out of one sandbox, then into the other");
	else if (!out && !in)
		r = err_set(e, ERR_INVALID, EINVAL,
			    "neither is in a sandbox: ID:PATH is wanted for one of them (./a:b is "
			    "a file here)");
	if (r == 0) {
		(void)snprintf(id, sizeof(id), "%.*s", (int)(out ? n : in_n), out ? src : dst);
		r = client_open(c, e);
	}
	if (r == 0)
		r = api_find(c, id, true, b, e);
	if (r == 0) {
		k->c = c;
		k->box = b;
		r = out ? copy_out(k, from, dst, e) : copy_in(k, src, to, e);
	}
	free(b);
	return r;
}

static int cp_run(int argc, char **argv)
{
	struct copying k = {.max_bytes = 64ULL << 30};
	struct client c = {.http = {.multi = NULL}};
	struct err e = ERR_INIT;
	int r;

	(void)argc;
	r = client_options(&c, opts, ARRAY_LEN(opts), argv, -1, take, &k, &e);
	if (r >= 0)
		r = client_count(
		    r, 2, 2, "two names are wanted: brig cp FILE ID:PATH, or brig cp ID:PATH FILE",
		    &e);
	if (r >= 0)
		r = copy(&c, &k, argv[1], argv[2], &e);
	return client_end(&c, "cp", r, &e);
}

const struct command_impl client_cp = {
    .run = cp_run,
    .opts = opts,
    .nopts = ARRAY_LEN(opts),
    .notes = "Folders are copied with all in them; modes, times, links within them and holes are "
	     "kept. A folder as\n"
	     "DST gets SRC under its own name; SRC/. is what is in SRC. Paths inside begin at home "
	     "unless absolute.\n"
	     "Files appear here whole, and nothing is ever written outside DST.\n",
};

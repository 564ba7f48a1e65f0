/* `brig image build RECIPE`: packages by apt on the host (image_apt.c), then a root filesystem of
 * them by mmdebstrap in a sandbox without network (image_build.sh). */
#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "cli/image_apt.h"
#include "cli/image_asked.h"
#include "cmd/say.h"
#include "image/oci_config.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPT_WANT_JSON
#define OPT_WANT_NAME
#define OPT_WANT_BOX
#define OPT_WANT_BUILD
#include "cli/options_common.h"

static const char script[] =
#include "image_build_script.h"
    ;

enum { VERSIONS_MAX = 1024 * 1024 };

/* RECIPE: a path, or the name of a shipped one. */
static int read_recipe(const char *word, char *path, size_t size, char *text, size_t room,
		       struct err *e)
{
	const char *const places[] = {"%.400s",
				      BRIG_LIBEXECDIR "/../../share/brig/recipes/%.400s.yaml",
				      "/usr/share/brig/recipes/%.400s.yaml"};
	bool is_path = strchr(word, '/') != NULL || strchr(word, '.') != NULL;
	char q[QUOTE_MAX], self[512];
	ssize_t n;

	for (size_t i = is_path ? 0 : 1; i < (is_path ? 1 : ARRAY_LEN(places)); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		(void)snprintf(path, size, places[i], word);
#pragma GCC diagnostic pop
		n = file_get(AT_FDCWD, path, text, room);
		if (n >= 0)
			return (int)n;
		if (n == -EFBIG)
			return err_set(e, ERR_INVALID, EFBIG, "%.100s: larger than %d KiB", path,
				       RECIPE_MAX / 1024);
		if (is_path && n != -ENOENT)
			return err_set(e, ERR_DENIED, (int)-n, "%.100s: %s", path,
				       strerror((int)-n));
	}
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (!is_path && n > 0) { /* from the build folder of a source tree */
		self[n] = '\0';
		*strrchr(self, '/') = '\0';
		(void)snprintf(path, size, "%.400s/../dist/recipes/%.100s.yaml", self, word);
		n = file_get(AT_FDCWD, path, text, room);
		if (n >= 0)
			return (int)n;
	}
	return err_set(e, ERR_NOT_FOUND, ENOENT,
		       "no recipe %s: give the path of a YAML file, or base or code-interpreter-v1",
		       quote(word, q));
}

/* NAME=VERSION a line: notes of the sandbox, or a file of the caller's. */
static int add_versions(const char *what, char *text, struct strv *v, struct err *e)
{
	char *save = NULL, q[QUOTE_MAX];
	int n = 0;

	for (char *line = strtok_r(text, "\n", &save); line != NULL;
	     line = strtok_r(NULL, "\n", &save)) {
		n++;
		if (!recipe_is_pinned(line))
			return err_set(e, ERR_INVALID, EINVAL, "%.100s:%d: %s is not NAME=VERSION",
				       what, n, quote(line, q));
		if (strv_add(v, line) < 0)
			return err_no_memory(e);
	}
	return 0;
}

/* --versions: an image of the store, which has a list, or the path of one. */
static int read_versions(const char *word, struct strv *v, struct err *e)
{
	_cleanup_free_ char *text = malloc(VERSIONS_MAX), *path = NULL;
	struct image_found f = {.lock_fd = -1};
	bool is_file = !image_is_ref(word) || access(word, R_OK) == 0;
	ssize_t n;
	int r = is_file ? 0 : image_resolve(word, &f, e);

	if (text == NULL || (r == 0 && asprintf(&path, "%s%s", is_file ? word : f.dir,
						is_file ? "" : "/packages") < 0))
		r = err_no_memory(e);
	if (r == 0) {
		n = file_get(AT_FDCWD, path, text, VERSIONS_MAX);
		if (n < 0)
			r = err_set(e, ERR_NOT_FOUND, (int)-n, "--versions %s: %s", word,
				    n == -ENOENT && !is_file ? "the image has no list of packages"
							     : strerror((int)-n));
	}
	image_found_done(&f);
	return r == 0 ? add_versions(word, text, v, e) : r;
}

struct build {
	struct image_asked a;
	const char *versions;
	struct strv mirrors;
};

static int make(struct build *bd, const struct recipe *rec, const struct image_debs *debs,
		struct err *e)
{
	struct image_box b = {.script = script, .lim = bd->a.lim, .progress = bd->a.show};
	char source[300], doing[64];
	struct image_meta m = {.source = source,
			       .user = rec->user,
			       .workdir = rec->workdir,
			       .arch = oci_machine(),
			       .env = rec->env,
			       .cmd = rec->cmd};
	_cleanup_free_ char *notes = NULL, *without = NULL;
	const char *base = strrchr(bd->a.what, '/');
	struct image_new *n = NULL;
	size_t len = 0;
	int r;

	(void)snprintf(source, sizeof(source), "recipe:%.200s",
		       base != NULL ? base + 1 : bd->a.what);
	r = image_apt_provides(rec, &without, e);
	if (r < 0)
		return r;
	b.args[0] = rec->suite;
	b.args[1] = rec->user != NULL ? rec->user : "";
	b.args[2] = rec->workdir != NULL ? rec->workdir : "";
	b.args[3] = image_box_owners() ? "keep" : "one";
	b.args[4] = without;
	b.copy[0].from = debs->dir;
	b.copy[0].inside = "/tmp/debs";
	(void)snprintf(doing, sizeof(doing), "installing %u packages", debs->n);
	b.doing = doing;
	r = image_box_take(&b, &n, &notes, &len, e);
	if (r == 0)
		r = add_versions("packages", notes, &m.packages, e);
	if (r == 0)
		r = image_keep(n, &m, &bd->a.keep, e);
	strv_done(&m.packages);
	image_new_free(n);
	return r;
}

static int build(struct build *b, struct err *e)
{
	char path[1024], base[IMAGE_NAME_MAX + 1], tag[IMAGE_NAME_MAX + 1];
	_cleanup_free_ char *text = malloc(RECIPE_MAX + 2);
	_cleanup_free_ struct recipe *rec = calloc(1, sizeof(*rec));
	struct image_debs debs = IMAGE_DEBS_INIT;
	struct strv pins = {.v = NULL};
	int r, n = text == NULL || rec == NULL
		       ? err_no_memory(e)
		       : read_recipe(b->a.what, path, sizeof(path), text, RECIPE_MAX + 2, e);

	if (n < 0)
		return n;
	r = image_parse_name(b->a.keep.name, base, tag, e);
	if (r == 0)
		r = recipe_load(path, text, (size_t)n, rec, e);
	if (r < 0)
		return r;
	if (b->mirrors.n > 0) {
		strv_done(&rec->mirrors);
		rec->mirrors = b->mirrors;
		b->mirrors = (struct strv){.v = NULL};
	}
	r = image_box_need("mmdebstrap:mmdebstrap fakechroot:fakechroot fakeroot:fakeroot", e);
	if (r == 0 && b->versions != NULL)
		r = read_versions(b->versions, &pins, e);
	if (r == 0)
		r = image_apt_fetch(rec, path, &pins, b->a.show, &debs, e);
	if (r == 0) {
		r = make(b, rec, &debs, e);
		if (r < 0)
			(void)err_wrap(e, r, "%s", b->a.what);
	}
	image_debs_done(&debs);
	strv_done(&pins);
	recipe_done(rec);
	return r;
}

static int option(void *arg, const struct opt *o, const char *value, struct err *e)
{
	struct build *b = arg;
	char q[QUOTE_MAX];

	if (o->id == O_VERSIONS)
		b->versions = value;
	else if (o->id == O_MIRROR && !recipe_is_mirror(value))
		return err_set(
		    e, ERR_INVALID, EINVAL,
		    "--mirror %s: 'http(s)://HOST/PATH [SUITE [COMPONENT]...]' is expected",
		    quote(value, q));
	else if (o->id == O_MIRROR && strv_add(&b->mirrors, value) < 0)
		return err_no_memory(e);
	return o->id == O_VERSIONS || o->id == O_MIRROR;
}

static int build_run(int argc, char **argv)
{
	struct build b = {.versions = NULL};
	struct err e = ERR_INIT;
	bool path;
	int r;

	(void)argc;
	r = image_asked(&b.a, &image_command_build, argv, option, &b, "one RECIPE is needed", &e);
	path = r == 0 && (strchr(b.a.what, '/') != NULL || strchr(b.a.what, '.') != NULL);
	if (path && b.a.keep.name == NULL)
		r = err_set(&e, ERR_INVALID, EINVAL,
			    "--name is needed for a recipe given by its path");
	if (r < 0) {
		strv_done(&b.mirrors);
		return image_usage("build", &e);
	}
	if (b.a.keep.name == NULL)
		b.a.keep.name = b.a.what;
	r = build(&b, &e);
	strv_done(&b.mirrors);
	return r < 0 ? say_err(&e) : 0;
}

const struct command_impl image_command_build = {
    .run = build_run,
    .opts = opts,
    .nopts = ARRAY_LEN(opts),
    .notes = "RECIPE is base, code-interpreter-v1, or the path of a YAML file. apt downloads the "
	     "packages and\n"
	     "verifies them by the archive's signature; each is kept in BRIG_CACHE (else "
	     "~/.cache/brig).\n"
	     "mmdebstrap installs them in a sandbox without network. The same packages make the "
	     "same digest.\n"
	     "  brig image build base\n"
	     "  brig image build --name again --versions base base      the same image, while the "
	     "archive has it\n"
	     "  brig image build --mirror http://mirror.example/debian base\n",
    .words = "base code-interpreter-v1",
};

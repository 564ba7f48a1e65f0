/* `brig image build RECIPE`: packages by apt on the host, then a root filesystem of them by mmdebstrap in a sandbox
 * without network. The sandbox's filter refuses mount and chroot, so mmdebstrap runs in its fakechroot mode;
 * what depends on time, chance or the builder is taken away, so that the same packages make the same digest. */
#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "cli/cmd_image.h"
#include "cli/image_apt.h"
#include "cli/image_box.h"
#include "cli/say.h"
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
#include "cli/options_common.h"

/* $1 suite, $2 packages with commas, $3 user or empty, $4 working folder or empty, $5 owners: keep or one */
static const char script[] =
    "exec 3>&1 4>&2 >/tmp/log 2>&1\n"
    "fail() { grep -v '^[IW]: ' /tmp/log | tail -n 3 >&4; exit 1; }\n"
    "cd /tmp/debs || fail\n"
    "epoch=0\n"
    "for f in *.deb; do\n" /* the time of the newest package: of its first ar header, ar(5) */
    "  t=$(head -c 36 \"$f\" | tail -c 12 | tr -d ' '); [ \"$t\" -le \"$epoch\" ] || epoch=$t\n"
    "  dpkg-deb -f \"$f\" || fail\n"
    "  echo \"Filename: ./$f\nSize: $(stat -c %s \"$f\")\nSHA256: $(sha256sum <\"$f\" | cut -c1-64)\n\"\n"
    "done >Packages\n"
    "export SOURCE_DATE_EPOCH=$epoch TMPDIR=/tmp PYTHONHASHSEED=0\n"
    /* with one id only, fakeroot must not even try: the kernel says EINVAL, which it passes on */
    "[ \"$5\" = keep ] || export FAKEROOTDONTTRYCHOWN=1\n"
    "cd /tmp; r=/tmp/root\n"
    "mmdebstrap --mode=fakechroot --variant=custom --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr --include=\"$2\" "
    "--format=directory \"$1\" $r 'deb [trusted=yes] copy:///tmp/debs ./' || fail\n"
    /* fakechroot writes its root before absolute targets */
    "find $r -type l -lname \"$r/*\" | while read -r l; do\n"
    "  t=$(readlink \"$l\") && ln -sfn \"${t#$r}\" \"$l\" || exit 1\n"
    "done || fail\n"
    "[ -z \"$(find $r -type l -lname \"$r*\")\" ] || { echo 'links lead out of the root' >&4; exit 1; }\n"
    "chmod -R u+rwX $r || fail\n"
    "if [ -n \"$3\" ]; then\n"
    "  echo \"$3:x:1000:1000::/home/$3:/bin/bash\" >>$r/etc/passwd; echo \"$3:x:1000:\" >>$r/etc/group\n"
    "  echo \"$3:*:19000:0:99999:7:::\" >>$r/etc/shadow; mkdir -p $r/home/$3\n"
    "  [ \"$5\" != keep ] || chown 1000:1000 $r/home/$3\n"
    "fi\n"
    "[ -z \"$4\" ] || { mkdir -p \"$r$4\"; [ -z \"$3\" ] || [ \"$5\" != keep ] || chown 1000:1000 \"$r$4\"; }\n"
    "find $r/dev $r/run $r/tmp $r/var/tmp $r/var/cache/apt $r/var/lib/apt/lists -mindepth 1 -delete\n"
    "find $r/var/log -type f -delete\n"
    "rm -f $r/var/cache/ldconfig/aux-cache $r/var/lib/dbus/machine-id $r/etc/resolv.conf $r/etc/hostname "
    "$r/var/lib/systemd/random-seed $r/var/cache/debconf/*-old $r/var/lib/dpkg/*-old $r/etc/*- "
    "$r/etc/apt/sources.list $r/etc/apt/sources.list.d/* $r/etc/apt/apt.conf.d/99mmdebstrap\n"
    ": >$r/etc/machine-id\n"
    "own=; [ \"$5\" = keep ] || own='--owner=0 --group=0'\n"
    "dpkg-query --admindir=$r/var/lib/dpkg -W -f '${Package}=${Version}\\n' >&4 || fail\n"
    "tar --format=pax --numeric-owner --sort=name --mtime=@$epoch --clamp-mtime "
    "--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime $own -C $r -cf - . >&3 || fail\n";

/* RECIPE: a path, or the name of a shipped one. */
static int read_recipe(const char *word, char *path, size_t size, char *text, size_t room, struct err *e)
{
	const char *const places[] = {"%.400s", BRIG_LIBEXECDIR "/../../share/brig/recipes/%.400s.yaml",
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
	return err_set(e, ERR_NOT_FOUND, ENOENT, "no recipe %s: give the path of a YAML file, or base or code-interpreter-v1",
		       quote(word, q));
}

static int add_packages(char *notes, struct strv *v, struct err *e)
{
	char *save = NULL;

	for (char *line = strtok_r(notes, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save))
		if (strv_add(v, line) < 0)
			return err_set(e, ERR_INTERNAL, ENOMEM, "out of memory");
	return 0;
}

/* With commas: what every recipe has, then its own. */
static int join(const struct strv *v, char **ret, struct err *e)
{
	size_t n = 0;
	FILE *f = open_memstream(ret, &n);

	if (f == NULL)
		return err_set(e, ERR_INTERNAL, ENOMEM, "out of memory");
	for (size_t i = 0; image_apt_needed[i] != NULL; i++)
		(void)fprintf(f, "%s%s", i == 0 ? "" : ",", image_apt_needed[i]);
	for (uint32_t i = 0; i < v->n; i++)
		(void)fprintf(f, ",%s", v->v[i]);
	return fclose(f) == 0 ? 0 : err_set(e, ERR_INTERNAL, ENOMEM, "out of memory");
}

static int make(const char *word, const struct recipe *rec, const char *name, struct image_box *b, bool json, bool show,
		struct err *e)
{
	char source[300], digest[IMAGE_DIGEST_LEN + 1];
	struct image_meta m = {.source = source, .user = rec->user, .workdir = rec->workdir, .arch = oci_machine(),
			       .env = rec->env, .cmd = rec->cmd};
	_cleanup_free_ char *notes = NULL, *debs = NULL, *packages = NULL;
	const char *base = strrchr(word, '/');
	struct image_new *n = NULL;
	size_t len = 0;
	int r;

	(void)snprintf(source, sizeof(source), "recipe:%.200s", base != NULL ? base + 1 : word);
	r = image_apt_fetch(rec, source + strlen("recipe:"), show, &debs, e);
	if (r == 0)
		r = join(&rec->packages, &packages, e);
	if (r < 0)
		return r;
	b->script = script;
	b->args[0] = rec->suite;
	b->args[1] = packages;
	b->args[2] = rec->user != NULL ? rec->user : "";
	b->args[3] = rec->workdir != NULL ? rec->workdir : "";
	b->args[4] = image_box_owners() ? "keep" : "one";
	b->copy[0].from = debs;
	b->copy[0].inside = "/tmp/debs";
	b->progress = show;
	if (show)
		say_status("installing packages", false);
	r = image_box_take(b, &n, &notes, &len, e);
	if (r == 0)
		r = add_packages(notes, &m.packages, e);
	if (r == 0)
		r = image_commit(n, &m, name, digest, e);
	if (r == 0 && image_say_taken(n, digest, name, json) != 0)
		r = err_set(e, ERR_INTERNAL, EIO, "standard output cannot be written");
	strv_done(&m.packages);
	image_new_free(n);
	return r;
}

static int build(const char *word, const char *name, struct image_box *b, bool json, bool show, struct err *e)
{
	char path[1024], base[IMAGE_NAME_MAX + 1], tag[IMAGE_NAME_MAX + 1];
	_cleanup_free_ char *text = malloc(RECIPE_MAX + 1);
	struct recipe rec = {.suite = NULL};
	int r, n = text == NULL ? err_set(e, ERR_INTERNAL, ENOMEM, "out of memory")
				: read_recipe(word, path, sizeof(path), text, RECIPE_MAX + 1, e);

	if (n < 0)
		return n;
	r = image_parse_name(name, base, tag, e);
	if (r == 0)
		r = image_box_need("mmdebstrap:mmdebstrap fakechroot:fakechroot fakeroot:fakeroot", e);
	if (r == 0)
		r = recipe_load(path, text, (size_t)n, &rec, e);
	if (r < 0)
		return r;
	r = make(word, &rec, name, b, json, show, e);
	recipe_done(&rec);
	return r < 0 ? err_wrap(e, r, "%s", word) : 0;
}

static int build_run(int argc, char **argv)
{
	struct opt_parser p = opt_parser(opts, ARRAY_LEN(opts), argv);
	const char *value = NULL, *name = NULL;
	const struct opt *o = NULL;
	struct image_box b = {.script = NULL};
	struct err e = ERR_INIT;
	bool json = false, quiet = false;
	int r;

	while ((r = opt_next(&p, &o, &value, &e)) > 0) {
		json = json || o->id == O_JSON;
		quiet = quiet || o->id == O_QUIET;
		if (o->id == O_NAME)
			name = value;
		if ((o->id == O_MEMORY || o->id == O_DISK || o->id == O_TIMEOUT) &&
		    (r = image_box_limit(&b.lim, o->name, value, &e)) < 0)
			break;
	}
	if (r == 0 && argc - p.at != 1)
		r = err_set(&e, ERR_INVALID, EINVAL, "one RECIPE is needed");
	if (r == 0 && name == NULL && (strchr(argv[p.at], '/') != NULL || strchr(argv[p.at], '.') != NULL))
		r = err_set(&e, ERR_INVALID, EINVAL, "--name is needed for a recipe given by its path");
	if (r < 0)
		return image_usage("build", &e);
	r = build(argv[p.at], name != NULL ? name : argv[p.at], &b, json, !quiet && isatty(STDERR_FILENO) == 1, &e);
	return r < 0 ? say_err(&e) : 0;
}

const struct command_impl image_command_build = {
    .run = build_run,
    .opts = opts,
    .nopts = ARRAY_LEN(opts),
    .notes = "RECIPE is base, code-interpreter-v1, or the path of a YAML file. apt downloads and verifies the\n"
	     "packages; mmdebstrap installs them in a sandbox without network. The same packages make the\n"
	     "same digest.\n"
	     "  brig image build base\n",
    .words = "base code-interpreter-v1",
};

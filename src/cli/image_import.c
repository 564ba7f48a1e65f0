/* `brig image import FILE`: a root filesystem as a tar file, or what skopeo and umoci make one of. */
#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "cli/cmd_image.h"
#include "cli/image_oci.h"
#include "cli/say.h"
#include "image/kind.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OPT_WANT_JSON
#define OPT_WANT_NAME
#define OPT_WANT_BOX
#define OPT_WANT_LIMITS
#include "cli/options_common.h"

static int take_tar(const char *file, const struct image_box_limits *lim, const struct image_keep *k, bool show, struct err *e)
{
	_cleanup_close_ int fd = strcmp(file, "-") == 0 ? dup(STDIN_FILENO) : open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	char q[QUOTE_MAX], source[512];
	struct image_meta m = {.source = source};
	struct image_limits in = lim->image;
	struct image_new *n = NULL;
	int r;

	if (fd < 0)
		return err_set(e, ERR_NOT_FOUND, errno, "%s: %s", quote(file, q), strerror(errno));
	(void)snprintf(source, sizeof(source), "tar:%.500s", file);
	in.time_ms = lim->timeout_ms;
	r = image_take_in(fd, &in, image_show_progress, &show, &n, e);
	if (show)
		say_status(NULL, false);
	if (r == 0)
		r = image_keep(n, &m, k, e);
	image_new_free(n);
	return r;
}

static int take(const char *what, const struct image_box_limits *lim, const struct image_keep *k, bool show, struct err *e)
{
	char base[IMAGE_NAME_MAX + 1], tag[IMAGE_NAME_MAX + 1];
	enum image_kind kind = IMAGE_TAR;
	const char *tool = "";
	int r = k->name == NULL ? 0 : image_parse_name(k->name, base, tag, e);

	if (r == 0 && !image_oci_is_source(what) && strcmp(what, "-") != 0)
		r = image_kind_of(what, &kind, &tool, e);
	if (r < 0)
		return r;
	if (!image_oci_is_source(what) && kind == IMAGE_TAR)
		return take_tar(what, lim, k, show, e);
	return image_oci_import(what, kind, tool, lim, k, show, e);
}

static int import_run(int argc, char **argv)
{
	struct opt_parser p = opt_parser(opts, ARRAY_LEN(opts), argv);
	struct image_box_limits lim = {.memory = 0};
	struct image_box erofs = {.script = NULL};
	struct image_keep k = {.name = NULL};
	const char *value = NULL;
	const struct opt *o = NULL;
	struct err e = ERR_INIT;
	bool show = isatty(STDERR_FILENO) == 1;
	int r;

	while ((r = opt_next(&p, &o, &value, &e)) > 0) {
		k.json = k.json || o->id == O_JSON;
		show = show && o->id != O_QUIET;
		if (o->id == O_EROFS)
			k.erofs = &erofs;
		if (o->id == O_NAME)
			k.name = value;
		if ((r = image_box_limit(&lim, o->name, value, &e)) < 0)
			break;
	}
	if (r == 0 && argc - p.at != 1)
		r = err_set(&e, ERR_INVALID, EINVAL, "one FILE is needed");
	if (r < 0)
		return image_usage("import", &e);
	erofs.lim = lim;
	erofs.progress = show;
	return take(argv[p.at], &lim, &k, show, &e) < 0 ? say_err(&e) : 0;
}

const struct command_impl image_command_import = {
    .run = import_run,
    .opts = opts,
    .nopts = ARRAY_LEN(opts),
    .notes = "FILE is a root filesystem as a tar file ('-': standard input), an OCI layout (a folder or a tar file), or\n"
	     "what docker save wrote; a file may be packed by gzip, zstd or xz. What it is, is seen from what is in it;\n"
	     "oci:DIR[:TAG] and docker-archive:FILE say it. Everything is checked entry by entry and refused whole when\n"
	     "anything is wrong; other formats than tar are read by tools in a sandbox without network.\n"
	     "  tar -C rootfs --numeric-owner -cf - . | brig image import --name base -\n",
};

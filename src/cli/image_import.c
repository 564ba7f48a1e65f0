/* `brig image import FILE`: a root filesystem as a tar file, or what skopeo and umoci make one of.
 */
#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "cli/image_asked.h"
#include "cli/image_oci.h"
#include "cmd/say.h"
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

static int take_tar(const char *file, const struct image_box_limits *lim,
		    const struct image_keep *k, bool show, struct err *e)
{
	_cleanup_close_ int fd = strcmp(file, "-") == 0
				     ? dup(STDIN_FILENO)
				     : open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
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

static int take(const char *what, const struct image_box_limits *lim, const struct image_keep *k,
		bool show, struct err *e)
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
	struct image_asked a;
	struct err e = ERR_INIT;

	(void)argc;
	if (image_asked(&a, &image_command_import, argv, NULL, NULL, "one FILE is needed", &e) < 0)
		return image_usage("import", &e);
	return take(a.what, &a.lim, &a.keep, a.show, &e) < 0 ? say_err(&e) : 0;
}

const struct command_impl image_command_import = {
    .run = import_run,
    .opts = opts,
    .nopts = ARRAY_LEN(opts),
    .notes = "FILE is a root filesystem as a tar file ('-': standard input), an OCI layout (a "
	     "folder or a tar file), or\n"
	     "what docker save wrote; a file may be packed by gzip, zstd or xz. What it is, is "
	     "seen from what is in it;\n"
	     "oci:DIR[:TAG] and docker-archive:FILE say it. Everything is checked entry by entry "
	     "and refused whole when\n"
	     "anything is wrong; other formats than tar are read by tools in a sandbox without "
	     "network.\n"
	     "  tar -C rootfs --numeric-owner -cf - . | brig image import --name base -\n",
};

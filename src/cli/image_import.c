/* `brig image import FILE`: a root filesystem as a tar file. */
#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "cli/cmd_image.h"
#include "cli/image_oci.h"
#include "cli/say.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OPT_WANT_JSON
#define OPT_WANT_NAME
#define OPT_WANT_BOX
#include "cli/options_common.h"

static int take(const char *file, const char *name, bool json, struct err *e)
{
	_cleanup_close_ int fd = strcmp(file, "-") == 0 ? dup(STDIN_FILENO) : open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	char base[IMAGE_NAME_MAX + 1], tag[IMAGE_NAME_MAX + 1], digest[IMAGE_DIGEST_LEN + 1], q[QUOTE_MAX];
	char source[512];
	struct image_meta m = {.source = source};
	const struct image_limits lim = {.bytes = 0};
	bool show = isatty(STDERR_FILENO) == 1;
	struct image_new *n = NULL;
	int r = fd < 0 ? err_set(e, ERR_NOT_FOUND, errno, "%s: %s", quote(file, q), strerror(errno)) : 0;

	if (r == 0 && name != NULL)
		r = image_parse_name(name, base, tag, e);
	(void)snprintf(source, sizeof(source), "tar:%.500s", file);
	if (r == 0)
		r = image_take_in(fd, &lim, image_show_progress, &show, &n, e);
	if (show)
		say_status(NULL, false);
	if (r == 0)
		r = image_commit(n, &m, name, digest, e);
	if (r == 0)
		r = image_say_taken(n, digest, name, json) == 0 ? 0 : err_set(e, ERR_INTERNAL, EIO, "standard output");
	image_new_free(n);
	return r;
}

static int import_run(int argc, char **argv)
{
	struct opt_parser p = opt_parser(opts, ARRAY_LEN(opts), argv);
	const char *value = NULL, *name = NULL;
	const struct opt *o = NULL;
	struct err e = ERR_INIT;
	struct image_box_limits lim = {.memory = 0};
	bool json = false, quiet = false;
	int r;

	while ((r = opt_next(&p, &o, &value, &e)) > 0) {
		json = json || o->id == O_JSON;
		quiet = quiet || o->id == O_QUIET;
		if ((o->id == O_MEMORY || o->id == O_DISK || o->id == O_TIMEOUT) &&
		    (r = image_box_limit(&lim, o->name, value, &e)) < 0)
			break;
		if (o->id == O_NAME)
			name = value;
	}
	if (r == 0 && argc - p.at != 1)
		r = err_set(&e, ERR_INVALID, EINVAL, "one FILE is needed");
	if (r < 0)
		return image_usage("import", &e);
	if (image_oci_is_source(argv[p.at]))
		return image_oci_import(argv[p.at], name, &lim, json, quiet, &e) < 0 ? say_err(&e) : 0;
	return take(argv[p.at], name, json, &e) < 0 ? say_err(&e) : 0;
}

const struct command_impl image_command_import = {
    .run = import_run,
    .opts = opts,
    .nopts = ARRAY_LEN(opts),
    .notes = "The stream is checked entry by entry and refused whole when anything is wrong with it.\n"
	     "oci: and docker-archive: images are unpacked by skopeo and umoci in a sandbox without network.\n"
	     "  tar -C rootfs --numeric-owner -cf - . | brig image import --name base -\n",
};

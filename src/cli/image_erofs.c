/* `brig image erofs IMAGE`: an image as one EROFS file, made when it is first needed. mkfs.erofs
 * reads the image's tree, which is shown to its sandbox read-only, with the image's ids; the file
 * comes out by a pipe. No kernel of this host ever mounts it. */
#include "base/cleanup.h"
#include "base/num.h"
#include "cli/image_asked.h"
#include "cmd/say.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define OPT_WANT_JSON
#define OPT_WANT_BOX
#define OPT_WANT_AGAIN
#include "cli/options_common.h"

/* $1: "keep", or "one": everything belongs to uid 0. Times stay; what depends on the builder does
 * not. */
static const char script[] =
    "exec 3>&1 4>&2 >/tmp/log 2>&1\n"
    "fail() { tail -n 3 /tmp/log >&4; exit 1; }\n"
    "own=; [ \"$1\" = keep ] || own='--force-uid=0 --force-gid=0'\n"
    "mkfs.erofs -T0 --preserve-mtime -x-1 -U 7b0a9a1e-3b0f-5c52-9d0c-0b5a6f1e7c01 -E "
    "legacy-compress,noinline_data $own "
    "/tmp/image.erofs /mnt || fail\n"
    "cat /tmp/image.erofs >&3\n";

int image_erofs_need(const struct image_found *f, struct image_box *b, bool again,
		     struct image_erofs *ret, struct err *e)
{
	_cleanup_free_ char *notes = NULL;
	struct err tool = ERR_INIT;
	struct image_info info = {.source = NULL};
	size_t len;
	int r = again ? 0 : image_erofs_find(f, ret, e), end;

	if (r != 0)
		return r < 0 ? r : 0;
	r = image_box_need("mkfs.erofs:erofs-utils", e);
	if (r == 0)
		r = image_info_read(f, &info, e);
	if (r < 0)
		return r;
	b->script = script;
	b->args[0] = info.one_owner || !image_box_owners() ? "one" : "keep";
	b->see = f->tree;
	b->as_root = true;
	image_info_done(&info);
	if (b->progress)
		say_status("making the EROFS file", false);
	r = image_box_start(b, e);
	if (r < 0)
		return r;
	r = image_erofs_take(f, b->out_fd, ret, e);
	end = image_box_end(b, &notes, &len, &tool);
	if (b->progress)
		say_status(NULL, false);
	if (end < 0 && (r == 0 || r == -ENODATA)) {
		*e = tool;
		r = end;
	}
	return r;
}

static int erofs(const char *ref, struct image_box *b, bool again, bool json, struct err *e)
{
	struct image_found f = {.lock_fd = -1};
	struct image_erofs file;
	int r = image_resolve(ref, &f, e);

	if (r == 0)
		r = image_erofs_need(&f, b, again, &file, e);
	if (r == 0 && json)
		(void)printf("{\"digest\":\"sha256:%s\",\"erofs\":\"%s\",\"size\":%" PRIu64 "}\n",
			     f.digest, file.path, file.size);
	else if (r == 0)
		(void)printf("%s\n", file.path);
	image_found_done(&f);
	return r == 0 && fflush(stdout) != 0
		   ? err_set(e, ERR_INTERNAL, errno, "standard output cannot be written")
		   : r;
}

static int option(void *arg, const struct opt *o, const char *value, struct err *e)
{
	bool *again = arg;

	(void)value;
	(void)e;
	*again = *again || o->id == O_AGAIN;
	return o->id == O_AGAIN;
}

static int erofs_run(int argc, char **argv)
{
	struct image_asked a;
	struct err e = ERR_INIT;
	bool again = false;

	(void)argc;
	if (image_asked(&a, &image_command_erofs, argv, option, &again, "one IMAGE is needed", &e) <
	    0)
		return image_usage("erofs", &e);
	return erofs(a.what, &a.erofs, again, a.keep.json, &e) < 0 ? say_err(&e) : 0;
}

const struct command_impl image_command_erofs = {
    .run = erofs_run,
    .opts = opts,
    .nopts = ARRAY_LEN(opts),
    .notes = "The file is made when the image has none yet: uncompressed, of 4 KiB blocks, and the "
	     "same for the\n"
	     "same image. Nothing mounts it.\n"
	     "  brig image erofs base\n",
    .words = "",
};

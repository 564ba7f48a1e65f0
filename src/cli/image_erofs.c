/* `brig image erofs IMAGE`: the tree as one EROFS file, by mkfs.erofs in a sandbox. The tree goes in as a tar
 * stream, so that owners stay; the file comes out by a pipe, its superblock is checked, and it takes its place by
 * one rename. The host's kernel never mounts it. */
#include "base/cleanup.h"
#include "base/num.h"
#include "cli/cmd_image.h"
#include "cli/image_box.h"
#include "cli/say.h"
#include "parse/erofs.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPT_WANT_JSON
#define OPT_WANT_BOX
#include "cli/options_common.h"

/* $1: "keep", or "one": everything belongs to uid 0 */
static const char script[] =
    "exec 3>&1 4>&2 >/tmp/log 2>&1\n"
    "fail() { tail -n 3 /tmp/log >&4; exit 1; }\n"
    "mkdir /tmp/tree && tar --numeric-owner -p -C /tmp/tree -xf - || fail\n"
    "own=; [ \"$1\" = keep ] || own='--force-uid=0 --force-gid=0'\n"
    "mkfs.erofs -T0 -x-1 -U 7b0a9a1e-3b0f-5c52-9d0c-0b5a6f1e7c01 -E legacy-compress,noinline_data $own /tmp/image.erofs /tmp/tree "
    "|| fail\n"
    "cat /tmp/image.erofs >&3\n";

/* tar reads the checked tree; its errors are the stream's. */
static int start_tar(const char *tree, int *ret_fd, pid_t *pid, struct err *e)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_set(e, ERR_INTERNAL, errno, "a pipe: %s", strerror(errno));
	*pid = fork();
	if (*pid == 0) {
		if (dup2(p[1], STDOUT_FILENO) < 0)
			_exit(127);
		(void)execl("/usr/bin/tar", "tar", "--format=pax", "--numeric-owner", "--sort=name", "-C", tree, "-cf", "-", ".",
			    (char *)NULL);
		(void)execl("/bin/tar", "tar", "--format=pax", "--numeric-owner", "--sort=name", "-C", tree, "-cf", "-", ".",
			    (char *)NULL);
		_exit(127);
	}
	(void)close(p[1]);
	if (*pid < 0) {
		(void)close(p[0]);
		return err_set(e, ERR_INTERNAL, errno, "fork: %s", strerror(errno));
	}
	*ret_fd = p[0];
	return 0;
}

static int copy_all(int from, int to, uint64_t *size, struct err *e)
{
	static uint8_t chunk[256 * 1024];
	ssize_t n;

	*size = 0;
	while ((n = read(from, chunk, sizeof(chunk))) != 0) {
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		r = n < 0 ? -errno : file_write_all(to, chunk, (size_t)n);
		if (r < 0)
			return err_set(e, ERR_INTERNAL, -r, "the EROFS file: %s", strerror(-r));
		*size += (uint64_t)n;
	}
	return 0;
}

static int check(int fd, uint64_t size, struct err *e)
{
	uint8_t super[EROFS_SUPER_SIZE];
	struct erofs_super read_back;
	const char *why = NULL;
	ssize_t n = pread(fd, super, sizeof(super), EROFS_SUPER_AT);

	if (n != (ssize_t)sizeof(super))
		return err_set(e, ERR_INVALID, EINVAL, "the EROFS file is too short for a superblock");
	if (erofs_super_read(super, size, &read_back, &why) < 0)
		return err_set(e, ERR_INVALID, EINVAL, "the EROFS file: %s", why);
	return 0;
}

static int make(const struct image_found *f, bool one_owner, struct image_box *b, uint64_t *size, struct err *e)
{
	_cleanup_close_ int fd = open(f->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), in = -1;
	_cleanup_free_ char *notes = NULL;
	struct err tool = ERR_INIT;
	int r = 0, end, status = 0;
	size_t len;
	pid_t pid = -1;

	if (fd < 0)
		return err_set(e, ERR_INTERNAL, errno, "%s: %s", f->dir, strerror(errno));
	r = start_tar(f->tree, &in, &pid, e);
	if (r < 0)
		return r;
	b->script = script;
	b->args[0] = one_owner || !image_box_owners() ? "one" : "keep";
	b->stdin_fd = in;
	r = image_box_start(b, e);
	(void)close(steal_fd(&in));
	if (r == 0) {
		r = copy_all(b->out_fd, fd, size, e);
		end = image_box_end(b, &notes, &len, &tool);
		if (r == 0 && end < 0) {
			*e = tool;
			r = end;
		}
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
	}
	if (r == 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
		r = err_set(e, ERR_INTERNAL, EIO, "tar could not read the image's tree");
	if (r == 0)
		r = check(fd, *size, e);
	return r == 0 ? image_put_file(f, fd, "image.erofs", e) : r;
}

static int erofs(const char *ref, struct image_box *b, bool json, struct err *e)
{
	struct image_found f = {.lock_fd = -1};
	struct image_info info;
	uint64_t size = 0;
	bool one;
	int r = image_box_need("mkfs.erofs:erofs-utils", e);

	if (r == 0)
		r = image_resolve(ref, &f, e);
	if (r < 0)
		return r;
	r = image_info_read(&f, &info, e);
	if (r == 0) {
		one = info.one_owner;
		image_info_done(&info);
		r = make(&f, one, b, &size, e);
	}
	if (r == 0 && json)
		(void)printf("{\"digest\":\"sha256:%s\",\"erofs\":\"%s/image.erofs\",\"size\":%" PRIu64 "}\n", f.digest, f.dir, size);
	else if (r == 0)
		(void)printf("%s/image.erofs\n", f.dir);
	image_found_done(&f);
	return r == 0 && fflush(stdout) != 0 ? err_set(e, ERR_INTERNAL, errno, "standard output cannot be written") : r;
}

static int erofs_run(int argc, char **argv)
{
	struct opt_parser p = opt_parser(opts, ARRAY_LEN(opts), argv);
	struct image_box b = {.script = NULL};
	const struct opt *o = NULL;
	const char *value = NULL;
	struct err e = ERR_INIT;
	bool json = false;
	int r;

	while ((r = opt_next(&p, &o, &value, &e)) > 0) {
		json = json || o->id == O_JSON;
		if ((o->id == O_MEMORY || o->id == O_DISK || o->id == O_TIMEOUT) &&
		    (r = image_box_limit(&b.lim, o->name, value, &e)) < 0)
			break;
	}
	if (r == 0 && argc - p.at != 1)
		r = err_set(&e, ERR_INVALID, EINVAL, "one IMAGE is needed");
	if (r < 0)
		return image_usage("erofs", &e);
	return erofs(argv[p.at], &b, json, &e) < 0 ? say_err(&e) : 0;
}

const struct command_impl image_command_erofs = {
    .run = erofs_run,
    .opts = opts,
    .nopts = ARRAY_LEN(opts),
    .notes = "The file is uncompressed, of 4 KiB blocks, and the same for the same image. Nothing mounts it.\n"
	     "  brig image erofs base\n",
    .words = "",
};

#include "base/cleanup.h"
#include "sys/call.h"
#include "tier/container/setup_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * brig-sudo, which asks PID 1 (wire/sudo.h), becomes `sudo`. It is a read-only mount of the host's file, at SUDO_PART first, then
 * over a file that must be there: the image's own /usr/bin/sudo, which could do nothing here, else /usr/local/bin/sudo. That one
 * is made: in the folder that stands for /usr/local with the image "host" (rootfs.c), in the root's upper layer where it
 * is writable, else in a layer over /usr/local/bin that is read-only as the rest. A mounted file can be neither
 * removed nor replaced inside.
 */

static const char local[] = "usr/local/bin";
#define TARGET "usr/local/bin/sudo"

/* A name of the image's, resolved without links. */
static int open_there(int root_fd, const char *path, uint64_t flags)
{
	return sys_openat2(root_fd, path, O_PATH | O_NOFOLLOW | flags, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

static bool is_file(int root_fd, const char *path)
{
	_cleanup_close_ int fd = open_there(root_fd, path, 0);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

static int make_layer(int root_fd)
{
	const char *const opts[] = {"lowerdir", ".brig/sudo-bin:usr/local/bin", "userxattr", NULL, NULL};
	_cleanup_close_ int there = open_there(root_fd, local, O_DIRECTORY), fd = -1;
	int r = there < 0 ? there : make_dirs(root_fd, ".brig/sudo-bin");

	if (r == 0)
		r = put_file(root_fd, ".brig/sudo-bin/sudo", "", 0555);
	if (r < 0)
		return r;
	fd = new_fs("overlay", opts, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	return fd < 0 ? fd : mount_at(fd, root_fd, local);
}

static int make_target(const struct tier_start *s, int root_fd)
{
	int r;

	if (s->plan.is_host || is_file(root_fd, TARGET))
		return 0;
	if (s->spec->root != ROOT_OVERLAY)
		return make_layer(root_fd);
	r = make_dirs(root_fd, local);
	return r < 0 ? r : put_file(root_fd, TARGET, "", 0555);
}

int setup_sudo(const struct tier_start *s, int root_fd)
{
	const uint64_t ro = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
	bool replaces = is_file(root_fd, "usr/bin/sudo");
	int r = replaces ? 0 : make_target(s, root_fd);

	if (r < 0)
		return s->spec->sudo == SUDO_ANY ? 0 : r; /* an image without the folder, or a kernel without the layer */
	return cover(root_fd, SUDO_PART, replaces ? "usr/bin/sudo" : TARGET, ro);
}

#include "base/cleanup.h"
#include "base/num.h"
#include "sys/call.h"
#include "tier/container/setup_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* A minimal /dev: six harmless nodes of the host (a device node cannot be made in a user
 * namespace), an own instance of the terminal file system, and the usual links. */

static const char *const nodes[] = {"null", "zero", "full", "random", "urandom", "tty"};
static const struct {
	const char *name, *target;
} links[] = {{"fd", "/proc/self/fd"},
	     {"stdin", "/proc/self/fd/0"},
	     {"stdout", "/proc/self/fd/1"},
	     {"stderr", "/proc/self/fd/2"},
	     {"ptmx", "pts/ptmx"}};

int setup_devices(int root_fd, char *why, size_t size)
{
	static const char *const pts_opts[] = {"newinstance", NULL,   "ptmxmode", "0666",
					       "mode",	      "0620", NULL};
	_cleanup_close_ int dev_fd = openat(root_fd, "dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int pts_fd = -1;
	char path[32];
	int r;

	(void)snprintf(why, size, "opening the new /dev");
	if (dev_fd < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
		(void)snprintf(path, sizeof(path), "/dev/%s", nodes[i]);
		(void)snprintf(why, size, "binding %s", path);
		r = put_file(dev_fd, nodes[i], "", 0666);
		if (r == 0)
			r = bind_at(AT_FDCWD, path, dev_fd, nodes[i],
				    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < ARRAY_LEN(links); i++)
		if (symlinkat(links[i].target, dev_fd, links[i].name) < 0)
			return -errno;
	(void)snprintf(why, size, "mounting /dev/pts");
	if (mkdirat(dev_fd, "pts", 0755) < 0)
		return -errno;
	pts_fd = new_fs("devpts", pts_opts, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
	return pts_fd < 0 ? pts_fd : mount_at(pts_fd, dev_fd, "pts");
}

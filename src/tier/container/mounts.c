#include "base/cleanup.h"
#include "sys/call.h"
#include "sys/file.h"
#include "tier/container/setup_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Small steps of the new mount API (fsopen(2), open_tree(2), move_mount(2)): file systems and binds
 * are made detached, get their flags, and are attached last, so nothing is ever visible half-made.
 */

int mount_at(int mount_fd, int dirfd, const char *path)
{
	return sys_move_mount(mount_fd, "", dirfd, path,
			      MOVE_MOUNT_F_EMPTY_PATH |
				  (path[0] == '\0' ? MOVE_MOUNT_T_EMPTY_PATH : 0));
}

int bind_at(int from_fd, const char *from, int to_fd, const char *to, uint64_t attrs)
{
	_cleanup_close_ int fd = sys_open_tree(from_fd, from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	int r;

	if (fd < 0)
		return fd;
	r = attrs != 0 ? sys_mount_setattr(fd, 0, attrs, 0, -1) : 0;
	return r < 0 ? r : mount_at(fd, to_fd, to);
}

int new_fs(const char *type, const char *const *opts, unsigned attrs)
{
	_cleanup_close_ int fs = sys_fsopen(type, FSOPEN_CLOEXEC);
	int r;

	if (fs < 0)
		return fs;
	for (; opts != NULL && opts[0] != NULL; opts += 2) {
		r = opts[1] != NULL ? sys_fsconfig(fs, FSCONFIG_SET_STRING, opts[0], opts[1], 0)
				    : sys_fsconfig(fs, FSCONFIG_SET_FLAG, opts[0], NULL, 0);
		if (r < 0)
			return r;
	}
	r = sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
	return r < 0 ? r : sys_fsmount(fs, FSMOUNT_CLOEXEC, attrs);
}

int put_file(int dirfd, const char *path, const char *text, mode_t mode)
{
	_cleanup_close_ int fd = openat(dirfd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);

	return fd < 0 ? -errno : file_write_all(fd, text, strlen(text));
}

#include "base/cleanup.h"
#include "base/num.h"
#include "image/store_priv.h"
#include "sys/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * What the unpacker may do: as root, give files owners and modes; and, where the kernel has
 * Landlock (landlock(7)), reach nothing but its folder. It was forked by us and has not read a byte
 * yet. What it cannot do it does not need: a kernel without Landlock leaves the path checks as the
 * only wall.
 */

static int only_folder(int dirfd)
{
	int abi = landlock_abi(), r;
	uint64_t all = landlock_fs_known(abi, LANDLOCK_V1 | LANDLOCK_REFER | LANDLOCK_TRUNCATE);
	_cleanup_close_ int fd = -1;

	if (abi < 2) /* the first one refuses every hard link into another folder */
		return 0;
	fd = landlock_new(abi, &(struct landlock_handled){.fs = all});
	if (fd < 0)
		return fd;
	r = landlock_allow(fd, dirfd, all);
	return r == 0 ? landlock_enforce(fd) : r;
}

static int only_caps(void)
{
	const uint32_t keep = 1u << CAP_CHOWN | 1u << CAP_FOWNER | 1u << CAP_FSETID |
			      1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH;
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2] = {{.permitted = 0}};

	if (syscall(SYS_capget, &h, d) < 0)
		return -errno;
	for (int i = 0; i < 2; i++) {
		uint32_t mask = i == 0 ? keep : 0;

		d[i].permitted &= mask;
		d[i].effective &= mask;
		d[i].inheritable = 0;
	}
	return syscall(SYS_capset, &h, d) < 0 ? -errno : 0;
}

int intake_jail(int dirfd)
{
	int r;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -errno;
	r = only_folder(dirfd);
	return r < 0 ? r : only_caps();
}

#include "sys/landlock.h"

#include <errno.h>
#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

int landlock_abi(void)
{
	long r = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	return r < 0 ? 0 : (int)r;
}

uint64_t landlock_fs_known(int abi, uint64_t fs)
{
	uint64_t known = LANDLOCK_V1;

	known |= abi >= 2 ? LANDLOCK_REFER : 0u;
	known |= abi >= 3 ? LANDLOCK_TRUNCATE : 0u;
	known |= abi >= 5 ? LANDLOCK_IOCTL_DEV : 0u;
	return fs & known;
}

int landlock_new(int abi, const struct landlock_handled *h)
{
	struct landlock_handled attr = {landlock_fs_known(abi, h->fs), h->net, h->scope};
	/* older kernels know the first fields only */
	size_t size = abi >= 6 ? sizeof(attr) : abi >= 4 ? 2 * sizeof(uint64_t) : sizeof(uint64_t);
	long fd = syscall(SYS_landlock_create_ruleset, &attr, size, 0);

	return fd < 0 ? -errno : (int)fd;
}

int landlock_allow(int ruleset_fd, int parent_fd, uint64_t fs)
{
	struct landlock_path_beneath_attr a = {.allowed_access = fs, .parent_fd = parent_fd};

	return syscall(SYS_landlock_add_rule, ruleset_fd, LANDLOCK_RULE_PATH_BENEATH, &a, 0) < 0 ? -errno : 0;
}

int landlock_enforce(int ruleset_fd)
{
	return syscall(SYS_landlock_restrict_self, ruleset_fd, 0) < 0 ? -errno : 0;
}

#include "base/cleanup.h"
#include "base/num.h"
#include "tier/container/setup_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Landlock (landlock(7)) as a second wall behind the mount namespace: should a descriptor of the
 * host ever leak in, nothing can be opened through it, because only paths below the sandbox's own
 * root have a rule. Used from ABI 2 on, since without REFER a rename across folders would fail.
 *
 * The constants newer than Debian 12's headers are given by value.
 */

enum {
	ACCESS_EXECUTE = 1u << 0,
	ACCESS_WRITE_FILE = 1u << 1,
	ACCESS_READ_FILE = 1u << 2,
	ACCESS_READ_DIR = 1u << 3,
	ACCESS_V1 = (1u << 13) - 1,
	ACCESS_REFER = 1u << 13,       /* ABI 2 */
	ACCESS_TRUNCATE = 1u << 14,    /* ABI 3 */
	ACCESS_IOCTL_DEV = 1u << 15,   /* ABI 5 */
	SCOPE_ABSTRACT_UNIX = 1u << 0, /* ABI 6 */
	SCOPE_SIGNAL = 1u << 1,	       /* ABI 6 */
};

struct ruleset_attr {
	uint64_t fs, net, scoped;
};

int landlock_abi(void)
{
	long r = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	return r < 0 ? 0 : (int)r;
}

static int allow(int ruleset_fd, int parent_fd, uint64_t access)
{
	struct landlock_path_beneath_attr a = {.allowed_access = access, .parent_fd = parent_fd};

	return syscall(SYS_landlock_add_rule, ruleset_fd, LANDLOCK_RULE_PATH_BENEATH, &a, 0) == 0
		   ? 0
		   : -errno;
}

static int allow_path(int ruleset_fd, const char *path, uint64_t access)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT || errno == EACCES ? 0 : -errno;
	return allow(ruleset_fd, fd, access);
}

int landlock_enter(const struct tier_start *s, char *why, size_t size)
{
	int abi = landlock_abi();
	uint64_t all = ACCESS_V1 | ACCESS_REFER | (abi >= 3 ? ACCESS_TRUNCATE : 0u) |
		       (abi >= 5 ? ACCESS_IOCTL_DEV : 0u);
	uint64_t look = ACCESS_EXECUTE | ACCESS_READ_FILE | ACCESS_READ_DIR | ACCESS_REFER;
	uint64_t dev = ACCESS_READ_FILE | ACCESS_READ_DIR | ACCESS_WRITE_FILE |
		       (all & (ACCESS_TRUNCATE | ACCESS_IOCTL_DEV));
	uint64_t proc =
	    ACCESS_READ_FILE | ACCESS_READ_DIR | ACCESS_WRITE_FILE | (all & ACCESS_TRUNCATE);
	const struct {
		const char *path;
		uint64_t access;
	} rules[] = {{"/", s->spec->root == ROOT_OVERLAY ? all : look},
		     {"/workspace", all},
		     {"/tmp", all},
		     {"/var/tmp", all},
		     {"/run", all},
		     {"/dev/shm", all},
		     {strcmp(s->plan.home, "/") != 0 ? s->plan.home : "/workspace", all},
		     {"/home/user", s->plan.is_host ? all : look},
		     {"/root", s->plan.is_host ? all : look},
		     {"/dev", dev},
		     {"/proc", proc}};
	struct ruleset_attr attr = {.fs = all, .scoped = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL};
	_cleanup_close_ int fd = -1;
	int r = 0;

	if (abi < 2)
		return 0;
	(void)snprintf(why, size, "Landlock");
	/* older kernels refuse bytes they do not know, unless zero: pass what they have */
	fd = (int)syscall(SYS_landlock_create_ruleset, &attr,
			  abi >= 6   ? sizeof(attr)
			  : abi >= 4 ? 2 * sizeof(uint64_t)
				     : sizeof(uint64_t),
			  0);
	if (fd < 0)
		return -errno;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(rules); i++)
		r = allow_path(fd, rules[i].path, rules[i].access);
	/* the agent's own file may lie outside the root */
	if (r == 0)
		r = allow(fd, s->init_fd, ACCESS_EXECUTE | ACCESS_READ_FILE);
	if (r == 0 && syscall(SYS_landlock_restrict_self, fd, 0) < 0)
		r = -errno;
	return r;
}

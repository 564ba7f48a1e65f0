#include "base/cleanup.h"
#include "base/num.h"
#include "sys/landlock.h"
#include "tier/container/setup_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/*
 * Landlock (landlock(7)) as a second wall behind the mount namespace: should a descriptor of the
 * host ever leak in, nothing can be opened through it, because only paths below the sandbox's own
 * root have a rule. Used from ABI 2 on, since without REFER a rename across folders would fail.
 */

static int allow_path(int ruleset_fd, const char *path, uint64_t access)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT || errno == EACCES ? 0 : -errno;
	return landlock_allow(ruleset_fd, fd, access);
}

int landlock_enter(const struct tier_start *s, char *why, size_t size)
{
	int abi = landlock_abi();
	uint64_t all = landlock_fs_known(abi, ~0ull);
	uint64_t look = LANDLOCK_EXECUTE | LANDLOCK_READ_FILE | LANDLOCK_READ_DIR | LANDLOCK_REFER;
	uint64_t proc = all & (LANDLOCK_READ_FILE | LANDLOCK_READ_DIR | LANDLOCK_WRITE_FILE | LANDLOCK_TRUNCATE);
	uint64_t dev = proc | (all & LANDLOCK_IOCTL_DEV);
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
	const struct landlock_handled handled = {.fs = all, .scope = LANDLOCK_ABSTRACT_UNIX | LANDLOCK_SIGNAL};
	_cleanup_close_ int fd = -1;
	int r = 0;

	if (abi < 2)
		return 0;
	(void)snprintf(why, size, "Landlock");
	fd = landlock_new(abi, &handled);
	if (fd < 0)
		return fd;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(rules); i++)
		r = allow_path(fd, rules[i].path, rules[i].access);
	/* the agent's own file may lie outside the root */
	if (r == 0)
		r = landlock_allow(fd, s->init_fd, LANDLOCK_EXECUTE | LANDLOCK_READ_FILE);
	return r == 0 ? landlock_enforce(fd) : r;
}

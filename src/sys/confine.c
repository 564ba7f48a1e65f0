#include "sys/confine.h"

#include "base/cleanup.h"
#include "sys/ids.h"
#include "sys/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The order matters: ids before capabilities, both before no_new_privs, the filter last, since it refuses what the
 * others need.
 */

enum { FILES = 256 * 1024 }; /* two for each of the most connections that rules permit, and more */

static int drop_ids(const struct confine *c, char *why, size_t size)
{
	(void)snprintf(why, size, "%s: an id of its own", c->who);
	if (!ids_host_root())
		return 0; /* as whoever started it; there is no other id to have */
	return setgroups(0, NULL) < 0 || setresgid(c->id, c->id, c->id) < 0 ||
		       setresuid(c->id, c->id, c->id) < 0
		   ? -errno
		   : 0;
}

static int drop_caps(const struct confine *c, char *why, size_t size)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {{0}};

	(void)snprintf(why, size, "%s: dropping capabilities", c->who);
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -errno;
	return syscall(SYS_capset, &h, none) < 0 ? -errno : 0;
}

static int allow_file(int ruleset_fd, const char *path)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);

	return fd < 0 ? -errno : landlock_allow(ruleset_fd, fd, LANDLOCK_READ_FILE);
}

static int no_files(const struct confine *c, char *why, size_t size)
{
	const struct landlock_handled all = {
	    .fs = LANDLOCK_V1, .net = LANDLOCK_BIND_TCP, .scope = LANDLOCK_ABSTRACT_UNIX | LANDLOCK_SIGNAL};
	int abi = landlock_abi(), r = 0;
	_cleanup_close_ int fd = -1;

	(void)snprintf(why, size, "%s: Landlock", c->who);
	if (abi < 1)
		return 0; /* `brig check` and --require landlock speak about it */
	fd = landlock_new(abi, &all);
	if (fd < 0)
		return fd;
	for (const char *const *f = c->files; r == 0 && *f != NULL; f++)
		r = allow_file(fd, *f);
	return r == 0 ? landlock_enforce(fd) : r;
}

static void raise_files(void)
{
	struct rlimit l, more = {FILES, FILES};

	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return;
	if (l.rlim_max < FILES && setrlimit(RLIMIT_NOFILE, &more) == 0)
		return; /* CAP_SYS_RESOURCE, getrlimit(2) */
	l.rlim_cur = l.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &l);
}

int confine_enter(const struct confine *c, char *why, size_t size)
{
	const struct sock_fprog prog = {
	    .len = (unsigned short)c->filter_n,
	    .filter = (struct sock_filter *)(uintptr_t)c->filter, /* NOLINT(performance-no-int-to-ptr) */
	};
	struct rlimit core = {0, 0};
	int r;

	raise_files();
	(void)setrlimit(RLIMIT_CORE, &core);
	r = drop_ids(c, why, size);
	if (r == 0)
		r = drop_caps(c, why, size);
	if (r < 0)
		return r;
	(void)snprintf(why, size, "%s: no_new_privs", c->who);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -errno;
	r = no_files(c, why, size);
	if (r < 0)
		return r;
	(void)snprintf(why, size, "%s: seccomp", c->who);
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0 ? -errno : 0;
}

#include "base/cleanup.h"
#include "base/num.h"
#include "sys/call.h"
#include "sys/file.h"
#include "tier/container/setup_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/*
 * A fresh /proc of the sandbox's own PID namespace. What is global in it is covered: uid 0 of the
 * sandbox owns the sysctls of its IPC namespace even without a capability, so /proc/sys is mounted
 * read-only; so is /proc/pressure, where anybody may have the host's kernel watch its whole load
 * for him (psi triggers, work and memory no limit counts); files that tell about the host's kernel
 * are covered by /dev/null.
 *
 * Before that the number of user namespaces below this one is set to zero (namespaces(7),
 * user.max_user_namespaces): a second wall behind the filter, for the agent too.
 */

static const char *const read_only[] = {"sys", "irq", "bus", "fs", "acpi", "scsi", "pressure"};
static const char *const covered[] = {"kcore",	     "keys",	      "kallsyms",   "timer_list",
				      "sched_debug", "sysrq-trigger", "kpagecount", "kpageflags",
				      "kpagecgroup", "latency_stats", "key-users",  "kmsg"};

int setup_proc(int root_fd, char *why, size_t size)
{
	_cleanup_close_ int fd =
	    new_fs("proc", NULL, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	int r;

	(void)snprintf(why, size,
		       "mounting /proc (covered by another mount on the host? run brig check)");
	if (fd < 0)
		return fd;
	r = mount_at(fd, root_fd, "proc");
	if (r < 0)
		return r;
	(void)snprintf(why, size, "forbidding nested user namespaces");
	r = file_put(fd, "sys/user/max_user_namespaces", "0");
	if (r < 0 && r != -ENOENT)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(read_only); i++) {
		(void)snprintf(why, size, "protecting /proc/%s", read_only[i]);
		if (faccessat(fd, read_only[i], F_OK, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		r = bind_at(fd, read_only[i], fd, read_only[i],
			    MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
				MOUNT_ATTR_NOEXEC);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < ARRAY_LEN(covered); i++) {
		(void)snprintf(why, size, "covering /proc/%s", covered[i]);
		/* looked at first: a mount that is made and dropped again costs an RCU wait */
		if (faccessat(fd, covered[i], F_OK, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		r = bind_at(root_fd, "dev/null", fd, covered[i], 0);
		if (r < 0)
			return r;
	}
	return 0;
}

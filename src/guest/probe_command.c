#include "guest/probe.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/*
 * What a command finds that is its process's own, beside what probe_task tells: descriptors,
 * limits, the processes it sees, whether it may write settings of the kernel. Nothing is written.
 */

/* As getdents64(2) has it. */
struct entry {
	uint64_t ino, off;
	uint16_t len;
	uint8_t type;
	char name[];
};

/* Entries of /proc that are numbers. By the plain call: the C library's buffer would be taken from
 * and given back to the kernel each time. */
static uint32_t count_pids(const struct probe_view *v)
{
	_cleanup_close_ int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint32_t n = 0;
	long got;

	while (fd >= 0 && (got = syscall(SYS_getdents64, fd, v->text, v->room)) > 0) {
		for (const char *at = v->text; at < v->text + got;) {
			const struct entry *e = (const struct entry *)(const void *)at;

			n += e->name[0] >= '1' && e->name[0] <= '9';
			at += e->len;
		}
	}
	return n;
}

/*
 * Descriptors above 2 that execve(2) leaves open. Asking for each number costs less than a listing,
 * for which the kernel makes an inode for each; and one is done when as many were found as the
 * folder's size says are open (Linux 6.2; before, it is 0, and all slots are asked for).
 */
static uint32_t count_kept(const struct probe_view *v)
{
	uint32_t kept = v->fd_slots == 0; /* not known: one */
	int64_t open_n = INT64_MAX;
	struct stat st;

	if (fstatat(v->self_fd, "fd", &st, 0) == 0 && st.st_size > 0)
		open_n = st.st_size;
	for (uint32_t fd = 0; fd < v->fd_slots && open_n > 0; fd++) {
		int flags = fcntl((int)fd, F_GETFD);

		open_n -= flags >= 0;
		kept += fd > 2 && flags >= 0 && (flags & FD_CLOEXEC) == 0;
	}
	return kept;
}

static void limits(struct probe_command *c)
{
	struct rlimit l[PROBE_LIMITS];
	int i = 0;

	for (int k = 0; k < PROBE_LIMITS; k++)
		l[k] = (struct rlimit){.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
#define LIMIT(id, name, soft, hard) (void)getrlimit(RLIMIT_##id, &l[i++]);
#include "wire/probe_facts.def"
#undef LIMIT
	for (i = 0; i < PROBE_LIMITS; i++) {
		c->soft[i] = l[i].rlim_cur;
		c->hard[i] = l[i].rlim_max;
	}
}

void probe_command(struct probe_command *c, struct probe_view *v)
{
	int fd;

	probe_task(&c->task, v);
	c->fds = count_kept(v);
	c->pids = count_pids(v);
	fd = open("/proc/sys/kernel/core_pattern", O_WRONLY | O_CLOEXEC);
	c->sys_open = fd < 0 ? (uint32_t)errno : 0;
	if (fd >= 0)
		(void)close(fd);
	limits(c);
}

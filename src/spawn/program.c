#include "spawn/program.h"

#include "base/cleanup.h"
#include "sys/clone.h"
#include "sys/ids.h"
#include "sys/raw.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* brig's other programs are found by place, never by PATH. */

static int try_program(const char *path, int *ret_fd, bool *ret_ours, struct err *e)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (st.st_mode & 0111) == 0)
		return -ENOENT;
	if ((st.st_mode & 022) != 0 || (st.st_uid != 0 && st.st_uid != geteuid()))
		return err_set(
		    e, ERR_DENIED, EPERM,
		    "'%s' could be changed by others: it must belong to root or you, mode 0755",
		    path);
	*ret_ours = st.st_uid == geteuid() && !ids_host_root();
	*ret_fd = steal_fd(&fd);
	return 0;
}

int program_find(const char *name, char *path, size_t size, int *ret_fd, bool *ret_ours, struct err *e)
{
	size_t len = strlen(name) + 1;
	ssize_t n = readlink("/proc/self/exe", path, size - len);
	char *slash;
	int r = -ENOENT;

	if (n > 0) {
		path[n] = '\0';
		slash = strrchr(path, '/');
		if (slash != NULL) {
			memcpy(slash + 1, name, len);
			r = try_program(path, ret_fd, ret_ours, e);
		}
	}
	if (r == -ENOENT) {
		(void)snprintf(path, size, "%s/%s", BRIG_LIBEXECDIR, name);
		r = try_program(path, ret_fd, ret_ours, e);
	}
	if (r < 0 && e != NULL && e->kind == ERR_NONE)
		return err_set(
		    e, ERR_NOT_FOUND, -r,
		    "%s not found beside brig nor in %s: run 'make' or 'make install'", name,
		    BRIG_LIBEXECDIR);
	return r;
}

/* ---- starting ----
 *
 * The child shares our memory until its execve, as vfork's does, but we go on meanwhile: what it needs is on a pad of its own,
 * which the kernel marks as free when the child has left this memory (CLONE_CHILD_CLEARTID, clone(2)). It makes raw system calls
 * only, so that errno stays ours. A program that cannot be executed closes its sockets, and is missed there.
 */

enum { CTL_FD = 3, PEER_FD = 4 }; /* wire/gate.h, wire/inspect.h */
enum { PADS = 4, PAD_STACK = 16 * 1024, SIGSET_BYTES = 8, CPUS_MAX = 1024 };

struct pad {
	_Alignas(16) uint8_t stack[PAD_STACK];
	struct pad *self;
	uint32_t busy; /* cleared by the kernel */
	uint32_t place; /* enum place */
	uint64_t cpus[CPUS_MAX / 64]; /* that we may run on */
	size_t cpus_n;                /* bytes of it; 0 = it stays where it is */
	int ctl, peer;
	char path[32], name[32];
	char *argv[2], *envp[1];
	uint64_t no_signals;
};

/*
 * A new process waits on its parent's processor, even while another is idle: fork's balancing takes that for busy where a
 * virtual machine's idle processor has been given back to its host. The parent, whose next milliseconds go on beside the
 * child's, moves it: until the child has begun, which may run on all of them again.
 */
enum place { UNPLACED, PLACING, PLACED, BEGUN };

static bool place_from(struct pad *p, enum place from, enum place to)
{
	uint32_t was = (uint32_t)from;

	return __atomic_compare_exchange_n(&p->place, &was, (uint32_t)to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static void elsewhere(struct pad *p, pid_t pid)
{
	uint64_t others[CPUS_MAX / 64];
	uint32_t here = 0, n = 0;

	if (p->cpus_n == 0 || raw_call(SYS_getcpu, (long)&here, 0, 0, 0, 0) < 0 || here >= CPUS_MAX)
		return;
	memcpy(others, p->cpus, sizeof(others));
	others[here / 64] &= ~(UINT64_C(1) << here % 64);
	for (size_t i = 0; i < p->cpus_n / 8; i++)
		n += others[i] != 0 ? 1u : 0u;
	if (n == 0 || !place_from(p, UNPLACED, PLACING))
		return;
	(void)raw_call(SYS_sched_setaffinity, pid, (long)p->cpus_n, (long)others, 0, 0);
	__atomic_store_n(&p->place, PLACED, __ATOMIC_RELEASE);
}

/* In the child, before all else. */
static void begin_anywhere(struct pad *p)
{
	enum { TURNS = 10000 }; /* its parent may have been killed in between */

	if (place_from(p, UNPLACED, BEGUN))
		return;
	for (int i = 0; i < TURNS && __atomic_load_n(&p->place, __ATOMIC_ACQUIRE) == PLACING; i++)
		(void)raw_call(SYS_sched_yield, 0, 0, 0, 0, 0);
	(void)raw_call(SYS_sched_setaffinity, 0, (long)p->cpus_n, (long)p->cpus, 0, 0);
}

/* Ignored signals stay ignored: the programs end by their sockets, or by SIGKILL. */
static void become(const void *arg)
{
	struct pad *p = ((const struct pad *)arg)->self;
	int null;

	begin_anywhere(p);
	null = raw_open("/dev/null", O_RDWR);
	(void)raw_call(SYS_setsid, 0, 0, 0, 0, 0); /* the terminal's signals are for brig */
	for (int fd = 0; fd < 3; fd++)
		(void)raw_call(SYS_dup3, null, fd, 0, 0, 0);
	(void)raw_call(SYS_dup3, p->ctl, CTL_FD, 0, 0, 0);
	if (p->peer >= 0)
		(void)raw_call(SYS_dup3, p->peer, PEER_FD, 0, 0, 0);
	(void)raw_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&p->no_signals, 0, SIGSET_BYTES, 0);
	if (null >= 0) /* everything but these is closed by execve */
		(void)raw_call(SYS_execve, (long)p->path, (long)p->argv, (long)p->envp, 0, 0);
	for (;;)
		(void)raw_call(SYS_exit_group, 127, 0, 0, 0, 0);
}

static struct pad *free_pad(void)
{
	static struct pad pad[PADS];
	static uint32_t next;
	struct pad *p = &pad[next++ % PADS];
	uint32_t busy;

	while ((busy = __atomic_load_n(&p->busy, __ATOMIC_ACQUIRE)) != 0)
		(void)syscall(SYS_futex, &p->busy, FUTEX_WAIT, busy, NULL, NULL, 0);
	return p;
}

int program_spawn(int prog_fd, const char *name, int ctl, int peer, pid_t *ret)
{
	_cleanup_close_ int high_fd = fcntl(prog_fd, F_DUPFD_CLOEXEC, 16); /* out of the way of 3 and 4 */
	struct pad *p = free_pad();
	struct clone_args args = {.flags = CLONE_VM | CLONE_CHILD_CLEARTID,
				  .child_tid = (uintptr_t)&p->busy,
				  .exit_signal = SIGCHLD,
				  .stack = (uintptr_t)p->stack,
				  .stack_size = PAD_STACK};
	sigset_t all, old;
	pid_t pid;
	long cpus;

	if (high_fd < 0)
		return -errno;
	p->ctl = ctl;
	p->peer = peer;
	(void)snprintf(p->path, sizeof(p->path), "/proc/self/fd/%d", high_fd);
	(void)snprintf(p->name, sizeof(p->name), "%s", name);
	p->argv[0] = p->name;
	p->self = p;
	p->busy = 1;
	p->place = UNPLACED;
	memset(p->cpus, 0, sizeof(p->cpus));
	cpus = raw_call(SYS_sched_getaffinity, 0, sizeof(p->cpus), (long)p->cpus, 0, 0);
	p->cpus_n = cpus > 0 ? (size_t)cpus : 0;
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, &old); /* no handler of ours may run there */
	pid = sys_clone3_call(&args, become, p);
	if (pid > 0)
		elsewhere(p, pid);
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	if (pid < 0) {
		p->busy = 0;
		return pid;
	}
	*ret = pid;
	return 0;
}

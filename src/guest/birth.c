#include "guest/birth.h"

#include "guest/probe.h"
#include "sys/clone.h"
#include "sys/pages.h"
#include "sys/raw.h"
#include "wire/agent_abi.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <signal.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Theory of operation. Two ways: the child borrows its maker's memory (PID 1's, or the starter's), or is a copy. Either
 * is born in its cgroup (clone3(2), CLONE_INTO_CGROUP), its maker acting as the cgroup's owner for that call, and
 * inherits a raised oom score. What the child then does is child.c's.
 */

#define OOM_SCORE_TEXT "200"
enum { CHILD_STACK = 8192 }; /* what a child uses of its own, as a rule */

/* The sandbox's filter knows clone3's argument only by its address: see wire/agent_abi.h. */
static struct clone_args *clone_args(int leaf_fd)
{
	static struct clone_args *args;

	if (args == NULL) {
		void *at = (void *)AGENT_CLONE3_ARGS;

		if (mmap(at, sizeof(*args), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != at)
			return NULL;
		args = at;
	}
	*args = (struct clone_args){.exit_signal = SIGCHLD};
	if (leaf_fd >= 0) {
		args->flags = CLONE_INTO_CGROUP;
		args->cgroup = (__u64)leaf_fd;
	}
	return args;
}

/*
 * Starting a process in a cgroup takes write access to it. Where the sandbox's root could not be made
 * its owner (an ordinary caller with subordinate ids), it is the caller's, whose id is another one inside.
 */
static void act_as_owner_of(int leaf_fd)
{
	struct stat st;

	if (leaf_fd >= 0 && fstatat(leaf_fd, "cgroup.procs", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid != geteuid())
		(void)setfsuid(st.st_uid); /* fails to, as the clone then does, when the id is not known inside */
}

/* By plain system calls: a child that shares our memory may run. */
static void act_as_self(void)
{
	(void)raw_call(SYS_setfsuid, raw_call(SYS_geteuid, 0, 0, 0, 0, 0), 0, 0, 0, 0);
}

static void exec_now(const void *arg)
{
	act_as_self();
	child_exec(arg);
}

/*
 * The first command of a sandbox that has no other process yet: it borrows PID 1's memory until its
 * execve(2), which spares copying page tables and every page PID 1 writes afterwards. Later ones must
 * not: a process of the same user could stop the borrower, and PID 1 with it.
 */
/* Not zero until a child that borrows our memory without suspending us has given it back. */
static int borrowed;

static void wait_for_memory(void)
{
	while (__atomic_load_n(&borrowed, __ATOMIC_ACQUIRE) != 0)
		(void)raw_call(SYS_futex, (long)&borrowed, FUTEX_WAIT, 1, 0, 0);
}

static pid_t borrow(const struct child *c, int leaf_fd, __u64 flags)
{
	static __attribute__((aligned(16))) char stack[32 * 1024];
	struct clone_args *args = clone_args(leaf_fd);

	if (args == NULL)
		return -ENOMEM;
	args->flags |= CLONE_VM | flags;
	if (flags & CLONE_PARENT)
		args->exit_signal = 0; /* it gets its maker's */
	if (flags & CLONE_CHILD_CLEARTID)
		args->child_tid = (__u64)(uintptr_t)&borrowed;
	pages_make(stack + sizeof(stack) - CHILD_STACK, CHILD_STACK);
	args->stack = (__u64)(uintptr_t)stack;
	args->stack_size = sizeof(stack);
	return sys_clone3_call(args, exec_now, c);
}

/*
 * One that measures itself does not suspend us: we measure the world meanwhile, and then wait for what
 * CLONE_VFORK would have waited for. The kernel clears `borrowed` at the same place in its execve(2) or end.
 */
static pid_t borrow_child(const struct child *c, int leaf_fd)
{
	borrowed = 1;
	return borrow(c, leaf_fd, c->measure ? CLONE_CHILD_CLEARTID : CLONE_VFORK);
}

static pid_t copy_child(const struct child *c, const struct job *j, int leaf_fd)
{
	struct clone_args *args = leaf_fd >= 0 ? clone_args(leaf_fd) : NULL;
	pid_t pid;

	if (leaf_fd >= 0 && args == NULL)
		return -ENOMEM;
	pid = (pid_t)(args != NULL ? syscall(SYS_clone3, args, sizeof(*args)) : syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
	if (pid == 0) {
		act_as_self();
		if (j->kind != REQ_EXEC)
			child_work(c);
		else if (j->guarded)
			child_guard(c);
		else
			child_exec(c);
	}
	return pid < 0 ? -errno : pid;
}

/* Children inherit the score. The agent's own is put back at once; raising needs no privilege and
 * lowering back to where it was does not either. */
static void oom_score(const struct agent *a, const char *score)
{
	if (a->oom_fd >= 0)
		(void)!pwrite(a->oom_fd, score, strlen(score), 0);
}

pid_t birth(struct agent *a, const struct job *j, const struct child *c, int leaf_fd)
{
	pid_t pid;

	if (c->measure && j != NULL)
		probe_rest();
	oom_score(a, OOM_SCORE_TEXT);
	act_as_owner_of(leaf_fd);
	pid = j == NULL ? borrow_child(c, leaf_fd) : copy_child(c, j, leaf_fd);
	if (leaf_fd >= 0)
		act_as_self();
	if (pid > 0 && c->measure && j == NULL) {
		probe_rest();
		wait_for_memory();
	}
	/* a change of ids, here or in a child that shares our memory, resets both (prctl(2)) */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	oom_score(a, a->oom_score);
	return pid;
}

pid_t birth_starter(struct agent *a, void (*run)(const void *arg), const void *arg)
{
	pid_t pid;

	oom_score(a, OOM_SCORE_TEXT);
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		run(arg);
	oom_score(a, a->oom_score);
	return pid < 0 ? -errno : pid;
}

pid_t birth_sibling(const struct child *c, int leaf_fd)
{
	pid_t pid;

	act_as_owner_of(leaf_fd);
	pid = borrow(c, leaf_fd, CLONE_VFORK | CLONE_PARENT);
	act_as_self();
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	return pid;
}

const char *birth_failed(pid_t r, bool into_leaf)
{
	return r == -EAGAIN  ? "process limit reached"
	       : into_leaf ? "cannot start a process in the cgroup of this exec"
			   : "cannot start a process";
}

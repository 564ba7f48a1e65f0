#include "base/cleanup.h"
#include "base/num.h"
#include "spawn/cgroup.h"
#include "spawn/ctl_priv.h"
#include "spawn/record.h"
#include "sys/call.h"
#include "tier/tier.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/*
 * The runner: a forked, single-threaded process that holds one sandbox. It makes the cgroups, has the
 * tier start the root process, and then only waits: for the caller's death, the caller's requests,
 * the root process's death and the clock. It never reads a byte that came from inside.
 *
 * Whatever ends the sandbox, the way out is one: kill everything, reap the root process (the kernel
 * ends a PID namespace before its first process can be reaped), remove cgroups and record, report.
 */

struct run {
	struct runner_job *job;
	struct cgset cg;
	struct tier_box box;
	uint64_t start_us, deadline_us; /* CLOCK_MONOTONIC; deadline 0 = none */
	struct runner_end end;
	bool hurry; /* the caller waits for the report only */
};

static uint64_t now_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static int report(struct run *r, struct ctl_report *m, int fd)
{
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} ctl = {{0}};
	struct iovec iov = {.iov_base = m, .iov_len = sizeof(*m)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd >= 0) {
		ctl.align.cmsg_level = SOL_SOCKET;
		ctl.align.cmsg_type = SCM_RIGHTS;
		ctl.align.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&ctl.align), &fd, sizeof(fd));
		msg.msg_control = &ctl;
		msg.msg_controllen = sizeof(ctl);
	}
	return sendmsg(r->job->ctl_fd, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static void kill_all(struct run *r)
{
	/* both: the group reaches what the namespace's first process could have hidden from us, and the
	 * namespace reaches everything where there is no group */
	(void)cgset_kill(&r->cg);
	if (r->box.root_pidfd >= 0)
		(void)sys_pidfd_send_signal(r->box.root_pidfd, SIGKILL);
}

static uint32_t require_missing(const struct spec *s, uint32_t weaker)
{
	uint32_t missing = 0;

	if ((s->require & REQ_NEED_LIMITS) != 0)
		missing |= weaker & (WEAKER_MEMORY | WEAKER_CPU | WEAKER_PIDS);
	if ((s->require & REQ_NEED_KILL) != 0)
		missing |= weaker & WEAKER_KILL;
	if ((s->require & REQ_NEED_IDMAP) != 0)
		missing |= weaker & WEAKER_IDMAP;
	if ((s->require & REQ_NEED_LANDLOCK) != 0)
		missing |= weaker & WEAKER_LANDLOCK;
	return missing;
}

static int refuse_weaker(const struct spec *s, uint32_t weaker, struct err *e)
{
	uint32_t missing = require_missing(s, weaker);

	if (missing == 0)
		return 0;
	return err_set(e, ERR_UNSUPPORTED, ENOTSUP, "--require: %s",
		       runner_weaker_text((enum runner_weaker)(missing & -missing)));
}

_Static_assert((int)WEAKER_MEMORY == (int)CG_NO_MEMORY && (int)WEAKER_CPU == (int)CG_NO_CPU &&
		   (int)WEAKER_PIDS == (int)CG_NO_PIDS && (int)WEAKER_KILL == (int)CG_NO_KILL &&
		   WEAKER_IDMAP == TIER_NO_IDMAP << 4 && WEAKER_LANDLOCK == TIER_NO_LANDLOCK << 4,
	       "runner_weaker joins the bits of cgroup.h and tier.h");

static int make_cgroups(struct run *r, uid_t owner, struct err *e)
{
	const char *paths[CGSET_PATHS_MAX];
	int ret;

	cgset_plan(&r->cg, r->job->spec);
	ret = record_note(r->job->record, paths, cgset_paths(&r->cg, paths));
	if (ret < 0)
		return err_set(e, ERR_INTERNAL, -ret, "state folder: %s", strerror(-ret));
	ret = cgset_make(&r->cg, r->job->spec, owner, e);
	return ret < 0 ? ret : refuse_weaker(r->job->spec, r->cg.weaker, e);
}

static int start(struct run *r, struct err *e)
{
	struct runner_job *job = r->job;
	bool root = geteuid() == 0;
	uint32_t base = RECORD_ID_BASE + job->record->slot * RECORD_ID_COUNT;
	int tasks[CG_V1_COUNT];
	struct tier_res res = {.agent_fd = job->agent_fd,
			       .id_base = base,
			       .id_count = root || job->sub_uid != 0 ? RECORD_ID_COUNT : 1,
			       .cap_uid = geteuid(),
			       .cap_gid = getegid(),
			       .sub_uid = job->sub_uid,
			       .sub_gid = job->sub_gid,
			       .init_fd = job->init_fd,
			       .init_path = job->init_is_ours ? job->init_path : NULL,
			       .tasks_fd = tasks};
	char leaf_path[sizeof(r->cg.v2_path) + 8];
	uint32_t weaker;
	int ret = make_cgroups(r, root ? base : (uid_t)-1, e);

	if (ret < 0)
		return ret;
	for (int k = 0; k < CG_V1_COUNT; k++)
		if (r->cg.v1_tasks_fd[k] >= 0)
			tasks[res.tasks_n++] = r->cg.v1_tasks_fd[k];
	res.leaf_fd = r->cg.v2_fd;
	res.exec_leaf_fd = r->cg.leaf1_fd;
	if (r->cg.leaf1_fd >= 0) {
		(void)snprintf(leaf_path, sizeof(leaf_path), "%s/exec-1", r->cg.v2_path);
		res.leaf_path = leaf_path;
	}
	ret = job->tier->start(job->spec, &res, &r->box, e);
	if (ret < 0)
		return ret;
	weaker = r->cg.weaker | r->box.weaker << 4;
	ret = refuse_weaker(job->spec, weaker, e);
	if (ret == 0) {
		struct ctl_report up = {.kind = CTL_UP, .val = weaker, .root_pid = r->box.root_pid};

		(void)report(r, &up, -1); /* a caller that is gone shows in the loop */
	}
	return ret;
}

/*
 * A leaf for the caller to pass on. As root it is the root of a mount of its own, from which no way
 * leads up into the host's tree. An ordinary user cannot make one outside a user namespace: there
 * Landlock must stand behind the plain folder.
 */
static int make_leaf(struct run *r, uint32_t exec_id, int *ret_fd)
{
	uid_t owner = geteuid() == 0 ? RECORD_ID_BASE + r->job->record->slot * RECORD_ID_COUNT : (uid_t)-1;
	_cleanup_close_ int fd = -1;
	int ret;

	if (exec_id < 2)
		return -EINVAL;
	if (geteuid() != 0 && (r->box.weaker & TIER_NO_LANDLOCK) != 0)
		return -EOPNOTSUPP;
	ret = cgset_leaf(&r->cg, exec_id, owner, &fd);
	if (ret < 0)
		return ret;
	if (geteuid() != 0) {
		*ret_fd = steal_fd(&fd);
		return 0;
	}
	ret = sys_open_tree(fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	if (ret < 0)
		return ret;
	*ret_fd = ret;
	return 0;
}

/* One request of the caller. False when the caller is gone or talks nonsense. */
static bool serve(struct run *r)
{
	struct ctl_request q;
	struct ctl_report a = {.kind = CTL_REPLY};
	_cleanup_close_ int fd = -1;
	ssize_t n = recv(r->job->ctl_fd, &q, sizeof(q), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n != (ssize_t)sizeof(q))
		return false;
	switch ((enum ctl_op)q.op) {
	case CTL_KILL:
		r->end.killed = true;
		return false;
	case CTL_DONE:
		r->hurry = true;
		return false;
	case CTL_LEAF:
		a.ret = make_leaf(r, q.arg, &fd);
		break;
	case CTL_LEAF_KILL:
		a.ret = cgset_leaf_kill(&r->cg, q.arg);
		break;
	case CTL_OOM_COUNT:
		a.val = cgset_oom_kills(&r->cg);
		break;
	case CTL_FREEZE:
		a.ret = cgset_freeze(&r->cg, q.arg != 0);
		break;
	default:
		return false;
	}
	return report(r, &a, fd) == 0;
}

/* Until something ends the sandbox. */
static void watch(struct run *r)
{
	enum { ROOT, CALLER, CTL, COUNT };
	struct pollfd p[COUNT] = {[ROOT] = {.fd = r->box.root_pidfd, .events = POLLIN},
				  [CALLER] = {.fd = r->job->caller_pidfd, .events = POLLIN},
				  [CTL] = {.fd = r->job->ctl_fd, .events = POLLIN}};

	for (;;) {
		int timeout = -1;

		if (r->deadline_us != 0) {
			uint64_t now = now_us();

			if (now >= r->deadline_us) {
				r->end.timed_out = true;
				return;
			}
			timeout = (int)MIN((r->deadline_us - now + 999) / 1000, (uint64_t)INT32_MAX);
		}
		if (poll(p, COUNT, timeout) < 0 && errno != EINTR)
			return;
		if (p[ROOT].revents != 0 || p[CALLER].revents != 0)
			return;
		if (p[CTL].revents != 0 && !serve(r))
			return;
	}
}

static void reap(struct run *r)
{
	struct rusage ru = {.ru_utime = {0}};

	if (r->box.root_pid <= 0)
		return;
	while (wait4(r->box.root_pid, NULL, 0, &ru) < 0 && errno == EINTR)
		;
	r->end.cpu_us = (uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1000000 +
			(uint64_t)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec);
}

static void account(struct run *r)
{
	struct cg_usage use;

	cgset_usage(&r->cg, &use);
	r->end.oom_kills = use.oom_kills;
	r->end.pids_denied = use.pids_denied;
	r->end.memory_peak = use.memory_peak;
	if (use.cpu_us != 0)
		r->end.cpu_us = use.cpu_us;
	r->end.wall_us = now_us() - r->start_us;
}

int runner_main(struct runner_job *job)
{
	struct run r = {.job = job, .box = {.root_pid = -1, .root_pidfd = -1}, .start_us = now_us()};
	struct ctl_report end = {.kind = CTL_END, .err = ERR_INIT};

	(void)prctl(PR_SET_NAME, "brig-runner", 0, 0, 0);
	(void)setsid(); /* the terminal's signals are for the caller */
	if (job->spec->timeout_ms != 0)
		r.deadline_us = r.start_us + job->spec->timeout_ms * 1000;
	end.ret = start(&r, &end.err);
	if (end.ret == 0) {
		(void)close(job->agent_fd); /* so that the agent sees the caller's end close */
		job->agent_fd = -1;
		(void)record_sweep();
		watch(&r);
	}
	kill_all(&r);
	if (!r.hurry)
		reap(&r);
	account(&r);
	end.end = r.end;
	if (r.hurry) {
		(void)report(&r, &end, -1);
		reap(&r);
	}
	/* what a killed process still holds is let go within moments */
	if (cgset_remove(&r.cg, 1000) == 0)
		record_drop(job->record);
	if (!r.hurry)
		(void)report(&r, &end, -1);
	cgset_done(&r.cg);
	return 0;
}

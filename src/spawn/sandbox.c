#include "spawn/sandbox_priv.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "sys/call.h"
#include "sys/ids.h"
#include "sys/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Starting, killing, accounting and removing a sandbox, for every tier: the record first, so that
 * whatever is made afterwards is known to the next brig should we die; then the cgroups; then the
 * tier's root process, born inside them.
 */

void sandbox_init(struct sandbox *s, const struct spec *spec, const struct tier_ops *tier)
{
	*s = (struct sandbox){.spec = spec,
			      .tier = tier,
			      .record = {.fd = -1, .dir_fd = -1},
			      .box = {.root_pid = -1, .root_pidfd = -1, .net = NET_SOCKS_NONE},
			      .image_fd = spec->image_held ? fcntl(spec->image_fd, F_DUPFD_CLOEXEC, 3) : -1,
			      .start_us = loop_clock_us(),
			      .require = spec->require};
	if (spec->timeout_ms != 0)
		s->deadline_us = s->start_us + spec->timeout_ms * 1000;
	cgset_plan(&s->cg, spec);
}

static uint32_t require_missing(uint32_t require, uint32_t weaker)
{
	uint32_t missing = 0;

	if ((require & REQ_NEED_LIMITS) != 0)
		missing |= weaker & (WEAKER_MEMORY | WEAKER_CPU | WEAKER_PIDS);
	if ((require & REQ_NEED_KILL) != 0)
		missing |= weaker & WEAKER_KILL;
	if ((require & REQ_NEED_IDMAP) != 0)
		missing |= weaker & WEAKER_IDMAP;
	if ((require & REQ_NEED_LANDLOCK) != 0)
		missing |= weaker & WEAKER_LANDLOCK;
	return missing;
}

int sandbox_refuse_weaker(const struct sandbox *s, struct err *e)
{
	uint32_t missing = require_missing(s->require, s->weaker);

	if (missing == 0)
		return 0;
	return err_set(e, ERR_UNSUPPORTED, ENOTSUP, "--require: %s",
		       runner_weaker_text((enum runner_weaker)(missing & -missing)));
}

_Static_assert((int)WEAKER_MEMORY == (int)CG_NO_MEMORY && (int)WEAKER_CPU == (int)CG_NO_CPU &&
		   (int)WEAKER_PIDS == (int)CG_NO_PIDS && (int)WEAKER_KILL == (int)CG_NO_KILL &&
		   WEAKER_IDMAP == TIER_NO_IDMAP << 4 && WEAKER_LANDLOCK == TIER_NO_LANDLOCK << 4,
	       "runner_weaker joins the bits of cgroup.h and tier.h");

static int make_cgroups(struct sandbox *s, uid_t owner, struct err *e)
{
	const char *paths[CGSET_PATHS_MAX];
	int r = record_note(&s->record, paths, cgset_paths(&s->cg, paths));

	if (r < 0)
		return err_set(e, ERR_INTERNAL, -r, "state folder: %s", strerror(-r));
	r = cgset_make(&s->cg, s->spec, owner, e);
	s->weaker = s->cg.weaker;
	return r < 0 ? r : sandbox_refuse_weaker(s, e);
}

static int start_tier(struct sandbox *s, const struct sandbox_need *need, uint32_t base,
		      struct err *e)
{
	char leaf_path[sizeof(s->cg.v2_path) + 8];
	int tasks[CG_V1_COUNT], r;
	struct tier_res res = {.agent_fd = need->agent_fd,
			       .leaf_fd = s->cg.v2_fd,
			       .tasks_fd = tasks,
			       .exec_leaf_fd = s->cg.leaf1_fd,
			       .count_pids = (s->cg.weaker & CG_NO_PIDS) != 0,
			       .id_base = base,
			       .id_count =
				   ids_host_root() || need->sub_uid != 0 ? RECORD_ID_COUNT : 1,
			       .cap_uid = geteuid(),
			       .cap_gid = getegid(),
			       .sub_uid = need->sub_uid,
			       .sub_gid = need->sub_gid,
			       .init_fd = need->init_fd,
			       .net = need->net,
			       .trust = need->trust,
			       .sudo_path = need->sudo_path,
			       .init_path = need->init_is_ours ? need->init_path : NULL};

	for (int k = 0; k < CG_V1_COUNT; k++)
		if (s->cg.v1_tasks_fd[k] >= 0)
			tasks[res.tasks_n++] = s->cg.v1_tasks_fd[k];
	if (s->cg.leaf1_fd >= 0) {
		(void)snprintf(leaf_path, sizeof(leaf_path), "%s/exec-1", s->cg.v2_path);
		res.leaf_path = leaf_path;
	}
	r = s->tier->start(s->spec, &res, &s->box, e);
	s->weaker |= s->box.weaker << 4;
	return r < 0 ? r : sandbox_refuse_weaker(s, e);
}

int sandbox_start(struct sandbox *s, const struct sandbox_need *need, struct err *e)
{
	uint32_t base;
	int r = record_claim(s->spec->id, &s->record, e);

	if (r < 0)
		return r;
	base = RECORD_ID_BASE + s->record.slot * RECORD_ID_COUNT;
	r = make_cgroups(s, ids_host_root() ? base : (uid_t)-1, e);
	if (r == 0)
		r = start_tier(s, need, base, e);
	s->spec = NULL; /* the caller's again */
	if (r < 0) {
		sandbox_kill(s);
		if (s->box.root_pid > 0)
			while (waitpid(s->box.root_pid, NULL, 0) < 0 && errno == EINTR)
				;
		s->box.root_pid = -1;
		net_socks_close(&s->box.net);
		sandbox_remove(s);
	}
	return r;
}

int sandbox_deadline(struct sandbox *s, uint64_t ms)
{
	if (ms > SPEC_TIMEOUT_MAX_MS)
		return -ERANGE;
	s->deadline_us = ms == 0 ? 0 : loop_clock_us() + ms * 1000;
	return 0;
}

void sandbox_kill(struct sandbox *s)
{
	/* both: the group reaches what the namespace's first process could have hidden from us, and
	 * the namespace reaches everything where there is no group */
	(void)cgset_kill(&s->cg);
	if (s->box.root_pidfd >= 0)
		(void)sys_pidfd_send_signal(s->box.root_pidfd, SIGKILL);
}

void sandbox_account(const struct sandbox *s, struct runner_end *end)
{
	struct cg_usage use;

	cgset_usage(&s->cg, &use);
	end->oom_kills = use.oom_kills;
	end->pids_denied = use.pids_denied;
	end->memory_peak = use.memory_peak;
	end->cpu_us = use.cpu_us;
	end->wall_us = loop_clock_us() - s->start_us;
}

void sandbox_wait_gone(const struct sandbox *s)
{
	struct pollfd p = {.fd = s->box.root_pidfd, .events = POLLIN};

	if (s->box.root_pidfd < 0)
		return;
	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
}

void sandbox_remove(struct sandbox *s)
{
	/* what a killed process still holds is let go within moments; else the next brig does it */
	if (cgset_remove(&s->cg, 1000) == 0)
		record_drop(&s->record);
}

void sandbox_done(struct sandbox *s)
{
	cgset_done(&s->cg);
	record_close(&s->record);
	if (s->box.root_pidfd >= 0)
		(void)close(s->box.root_pidfd);
	s->box.root_pidfd = -1;
	if (s->image_fd >= 0)
		(void)close(s->image_fd);
	s->image_fd = -1;
}

/*
 * A leaf for the caller to pass on. As root it is the root of a mount of its own, from which no way
 * leads up into the host's tree. An ordinary user cannot make one outside a user namespace: there
 * Landlock must stand behind the plain folder.
 */
int sandbox_leaf(struct sandbox *s, uint32_t exec_id, int *ret_fd)
{
	uid_t owner =
	    ids_host_root() ? RECORD_ID_BASE + s->record.slot * RECORD_ID_COUNT : (uid_t)-1;
	_cleanup_close_ int fd = -1;
	int ret;

	if (exec_id < 2)
		return -EINVAL;
	if (!ids_host_root() && (s->box.weaker & TIER_NO_LANDLOCK) != 0)
		return -EOPNOTSUPP;
	ret = cgset_leaf(&s->cg, exec_id, owner, &fd);
	if (ret < 0)
		return ret;
	if (!ids_host_root()) {
		*ret_fd = steal_fd(&fd);
		return 0;
	}
	ret = sys_open_tree(fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	if (ret < 0)
		return ret;
	*ret_fd = ret;
	return 0;
}

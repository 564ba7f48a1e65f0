#include "spawn/runner.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "gate/judge.h"
#include "parse/subid.h"
#include "spawn/ctl_priv.h"
#include "spawn/program.h"
#include "spawn/record.h"
#include "sys/call.h"
#include "sys/file.h"
#include "sys/ids.h"
#include "tier/tier.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * The caller's side: it starts the sandbox, forks the runner (runner_main.c) while the agent works,
 * keeps the host end of the agent's stream and a control socket, and takes over the cleaning up
 * should the runner be killed. The first process is the caller's child.
 */

struct runner {
	struct sandbox s;
	struct sandbox_need need; /* until the start */
	struct net_plan *net;	  /* likewise */
	char init_path[512];
	pid_t pid;
	int ctl_fd, agent_fd;
	enum runner_state state;
	struct gate gate;
	struct inspect inspect;
	int rules_fd; /* NET_RULES of the sandbox's sockets */
	struct runner_end end;
	bool lost; /* the runner died before its report */
	bool left; /* runner_finish: the runner ends by itself */
};

static const struct {
	uint32_t bit;
	const char *text;
} weaker_texts[] = {
    {WEAKER_MEMORY, "memory is not limited: no memory cgroup is delegated to you (run under "
		    "'systemd-run --user --scope -p Delegate=yes', or as root)"},
    {WEAKER_CPU, "cpu time is not limited: no cpu cgroup is delegated to you (run under "
		 "'systemd-run --user --scope -p Delegate=yes', or as root)"},
    {WEAKER_PIDS,
     "processes are limited per user id only: no pids cgroup is delegated to you (run under "
     "'systemd-run --user --scope -p Delegate=yes', or as root)"},
    {WEAKER_KILL,
     "no cgroup.kill: an exec's descendants are found and killed one by one (Linux >= 5.14 and a "
     "writable cgroup v2 tree)"},
    {WEAKER_IDMAP,
     "files of the image belong to nobody inside: idmapped mounts need root and a file system "
     "that has them"},
    {WEAKER_LANDLOCK, "Landlock is missing: Linux >= 5.19 with 'landlock' in the lsm= list"},
};

const char *runner_weaker_text(enum runner_weaker bit)
{
	for (size_t i = 0; i < ARRAY_LEN(weaker_texts); i++)
		if (weaker_texts[i].bit == (uint32_t)bit)
			return weaker_texts[i].text;
	return "unknown";
}

/* ---- subordinate ids: only for a user other than the image's default ---- */

static int wanted_subids(const struct spec *s, uint32_t *ret_uid, uint32_t *ret_gid, struct err *e)
{
	const char *dflt = s->image_user != NULL ? s->image_user : strcmp(s->image, "host") == 0 ? "user" : "root";
	const char *dflt_id = s->image_user != NULL ? s->image_user : strcmp(s->image, "host") == 0 ? "1000" : "0";
	struct passwd *pw = NULL;
	FILE *f;
	int r;

	*ret_uid = *ret_gid = 0;
	if (ids_host_root() || s->user == NULL || strcmp(s->user, dflt) == 0 ||
	    strcmp(s->user, dflt_id) == 0)
		return 0;
	/* a static program has no name service: the local file is what subuid(5) goes by anyway */
	f = fopen("/etc/passwd", "re");
	while (f != NULL && (pw = fgetpwent(f)) != NULL)
		if (pw->pw_uid == geteuid())
			break;
	r = subid_find("/etc/subuid", pw != NULL ? pw->pw_name : NULL, geteuid(),
		       RECORD_ID_COUNT - 1, ret_uid);
	if (r == 0)
		r = subid_find("/etc/subgid", pw != NULL ? pw->pw_name : NULL, geteuid(),
			       RECORD_ID_COUNT - 1, ret_gid);
	if (f != NULL)
		(void)fclose(f);
	if (r == 0 && access("/usr/bin/newuidmap", X_OK) < 0)
		r = -ENOENT;
	if (r < 0)
		return err_set(
		    e, ERR_UNSUPPORTED, ENOTSUP,
		    "--user %s: as an ordinary user only '%s' exists inside, unless newuidmap "
		    "(package uidmap) and 65536 ids for you in /etc/subuid and /etc/subgid are "
		    "there",
		    s->user, dflt);
	return 0;
}

/* ---- start ---- */

/* The sandbox without a runner, or whose runner is lost: end and remove it here. */
static void end_here(struct runner *r)
{
	if (r->agent_fd >= 0)
		(void)close(steal_fd(&r->agent_fd));
	sandbox_kill(&r->s);
	sandbox_wait_gone(&r->s);
	sandbox_account(&r->s, &r->end);
	sandbox_remove(&r->s);
}

/* Reap the root process, our child, once it has ended. */
static void reap_root(struct runner *r)
{
	struct rusage ru = {.ru_utime = {0}};
	pid_t pid;

	if (r->s.box.root_pid <= 0)
		return;
	do
		pid = wait4(r->s.box.root_pid, NULL, 0, &ru);
	while (pid < 0 && errno == EINTR);
	r->s.box.root_pid = -1;
	if (pid > 0 && r->end.cpu_us == 0)
		r->end.cpu_us = (uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1000000 +
				(uint64_t)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec);
}

static int fork_runner(struct runner *r, int ctl_far, struct err *e)
{
	struct clone_args args = {.exit_signal = SIGCHLD};
	_cleanup_close_ int self_fd = sys_pidfd_open(getpid());
	pid_t pid = self_fd < 0 ? self_fd : sys_clone3(&args);

	if (pid == 0)
		_exit(runner_main(&r->s, ctl_far, self_fd));
	if (pid < 0)
		return err_set(e, ERR_INTERNAL, -pid, "starting the runner: %s", strerror(-pid));
	r->pid = pid;
	return 0;
}

int runner_hold(struct runner *r, struct err *e)
{
	_cleanup_close_ int ctl_far = -1;
	int ctl[2], rc;

	if (r->pid > 0)
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ctl) < 0) {
		rc = err_set(e, ERR_INTERNAL, errno, "starting the runner: %s", strerror(errno));
	} else {
		r->ctl_fd = ctl[0];
		ctl_far = ctl[1];
		rc = fork_runner(r, ctl_far, e);
	}
	if (rc < 0) {
		end_here(r);
		reap_root(r);
		r->state = RUNNER_ENDED;
	}
	return rc;
}

static int start_with(struct runner *r, struct err *e)
{
	_cleanup_close_ int agent_far = -1;
	int agent[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, agent) < 0)
		return err_set(e, ERR_INTERNAL, errno, "the agent's socket: %s", strerror(errno));
	r->agent_fd = agent[0];
	agent_far = agent[1];
	if (fcntl(r->agent_fd, F_SETFL, O_NONBLOCK) < 0)
		return err_set(e, ERR_INTERNAL, errno, "the agent's socket: %s", strerror(errno));
	r->need.agent_fd = agent_far;
	return sandbox_start(&r->s, &r->need, e);
}

/* What may be asked for leads to listeners of the gate's; the plan is built before anything starts. */
static int plan_net(const struct spec *spec, struct net_plan **ret, struct err *e)
{
	_cleanup_free_ struct net_range *ranges = calloc(NET_RANGES_MAX, sizeof(*ranges));
	_cleanup_free_ struct net_plan *p = malloc(sizeof(*p));
	const char *way = getenv("BRIG_NET_WAY");
	struct judge *j = NULL;
	uint32_t n;
	int rc;

	if (ranges == NULL || p == NULL)
		return err_no_memory(e);
	rc = judge_new(spec->egress, strlen(spec->egress), &j, e);
	if (rc < 0)
		return rc;
	n = judge_ranges(j, ranges, NET_RANGES_MAX);
	rc = judge_has_local(j) && !spec->egress_local ? -EPERM : 0;
	judge_free(j);
	if (rc < 0)
		return err_set(e, ERR_INVALID, EPERM, "egress: not a rule: local");
	if (n > NET_RANGES_MAX || net_plan_gate(p, ranges, n, NULL) < 0)
		return err_set(e, ERR_LIMITED, E2BIG, "egress: more than %d address ranges",
			       NET_RANGES_MAX - 1);
	/* a host whose kernel has no tproxy, played by the suite: equal walls, see src/net/net.h */
	if (way != NULL && strcmp(way, "redirect") == 0)
		p->first = NET_REDIRECT;
	*ret = steal_ptr(&p);
	return 0;
}

/* Both are started, then both answers waited for: the sandbox's files need what the second one says. */
static int start_gate(struct runner *r, const struct spec *spec, struct err *e)
{
	struct gate_who who = {.sandbox = spec->id, .tier = spec->tier, .task = spec->task};
	size_t n = strlen(spec->egress);
	int rc = inspect_start(&r->inspect, spec->id, spec->egress, n, e);

	if (rc == 0)
		rc = gate_start(&r->gate, &who, spec->egress, n, r->inspect.peer_fd, e);
	return rc < 0 ? rc : inspect_trust(&r->inspect, e);
}

/* The sandbox is up and its sockets are ours: hand them to the gate. */
static int give_gate(struct runner *r, struct err *e)
{
	int rc;

	r->rules_fd = r->s.box.net.fd[NET_RULES];
	r->s.box.net.fd[NET_RULES] = -1;
	rc = gate_give(&r->gate, &r->s.box.net, e);

	if (rc < 0) {
		end_here(r);
		reap_root(r);
	}
	return rc;
}

/* What only the start needs. */
static void done_needing(struct runner *r)
{
	if (r->need.init_fd >= 0)
		(void)close(steal_fd(&r->need.init_fd));
	free(r->net);
	r->net = NULL;
	r->need = (struct sandbox_need){.agent_fd = -1, .init_fd = -1};
}

static int prepare(struct runner *r, const struct spec *spec, const struct tier_ops *tier, struct err *e)
{
	struct sandbox_need *need = &r->need;
	int rc = spec_check(spec, e);

	if (rc == 0)
		rc = tier->validate(spec, e);
	if (rc == 0)
		rc = wanted_subids(spec, &need->sub_uid, &need->sub_gid, e);
	if (rc == 0)
		rc = program_find("brig-init", r->init_path, sizeof(r->init_path), &need->init_fd,
				  &need->init_is_ours, e);
	if (rc == 0 && spec->egress != NULL) {
		rc = plan_net(spec, &r->net, e);
		if (rc == 0)
			rc = start_gate(r, spec, e);
	}
	need->init_path = r->init_path;
	need->net = r->net;
	need->trust = r->inspect.trust;
	return rc;
}

int runner_new(const struct spec *spec, struct runner **ret, struct err *e)
{
	const struct tier_ops *tier = tier_by_name(spec->tier);
	struct runner *r;
	int rc;

	if (tier == NULL)
		return err_set(e, ERR_INVALID, EINVAL, "unknown tier '%s'", spec->tier);
	r = calloc(1, sizeof(*r));
	if (r == NULL)
		return err_no_memory(e);
	r->pid = r->ctl_fd = r->agent_fd = r->rules_fd = r->need.agent_fd = r->need.init_fd = -1;
	r->state = RUNNER_ENDED; /* nothing is there yet */
	gate_init(&r->gate);
	inspect_init(&r->inspect);
	sandbox_init(&r->s, spec, tier);
	rc = prepare(r, spec, tier, e);
	if (rc < 0)
		runner_free(r);
	else
		*ret = r;
	return rc;
}

int runner_start(struct runner *r, struct err *e)
{
	int rc = start_with(r, e);

	if (rc == 0 && r->net != NULL)
		rc = give_gate(r, e);
	done_needing(r);
	if (rc == 0)
		r->state = RUNNER_STARTING;
	return rc;
}

int runner_agent_fd(const struct runner *r) { return r->agent_fd; }
int runner_event_fd(const struct runner *r) { return r->ctl_fd; }
struct inspect *runner_inspect(struct runner *r) { return r->inspect.ctl_fd >= 0 ? &r->inspect : NULL; }
struct gate *runner_gate(struct runner *r) { return r->gate.ctl_fd >= 0 ? &r->gate : NULL; }
int runner_take_rules_fd(struct runner *r) { return steal_fd(&r->rules_fd); }
uint32_t runner_weaker(const struct runner *r) { return r->s.weaker; }

void runner_limits(const struct runner *r, struct runner_limits *ret)
{
	struct cg_limit l[CG_V1_COUNT];

	cgset_limits(&r->s.cg, l);
	ret->memory = (struct runner_limit){l[CG_V1_MEMORY].known, l[CG_V1_MEMORY].value};
	ret->pids = (struct runner_limit){l[CG_V1_PIDS].known, l[CG_V1_PIDS].value};
	ret->cpu_milli = (struct runner_limit){l[CG_V1_CPU].known, l[CG_V1_CPU].value};
}

/* ---- reports ---- */

/* Take one report. 1 = a REPLY is in *ret, 0 = something else was taken in, -EAGAIN, -EPIPE = lost.
 */
static int take(struct runner *r, int flags, struct ctl_report *ret, int *ret_fd)
{
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} ctl;
	struct iovec iov = {.iov_base = ret, .iov_len = sizeof(*ret)};
	struct msghdr m = {
	    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ctl, .msg_controllen = sizeof(ctl)};
	struct cmsghdr *c;
	ssize_t n;
	int fd = -1;

	do
		n = recvmsg(r->ctl_fd, &m, flags | MSG_CMSG_CLOEXEC);
	/* a runner that ended with a request of ours unread: its last report is queued behind the
	 * error */
	while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	if (n < 0 && errno == EAGAIN)
		return -EAGAIN;
	if (n != (ssize_t)sizeof(*ret)) {
		r->lost = r->state != RUNNER_ENDED;
		r->state = RUNNER_ENDED;
		return -EPIPE;
	}
	c = CMSG_FIRSTHDR(&m);
	if (c != NULL && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	if (ret_fd != NULL && ret->kind == CTL_REPLY)
		*ret_fd = fd;
	else if (fd >= 0)
		(void)close(fd);
	switch ((enum ctl_kind)ret->kind) {
	case CTL_REPLY:
		return 1;
	case CTL_UP:
		r->state = RUNNER_UP;
		return 0;
	case CTL_END:
		r->state = RUNNER_ENDED;
		r->end = ret->end;
		return 0;
	}
	return 0;
}

enum runner_state runner_handle(struct runner *r)
{
	struct ctl_report m;

	while (r->ctl_fd >= 0 && r->state != RUNNER_ENDED && take(r, MSG_DONTWAIT, &m, NULL) >= 0)
		;
	return r->state;
}

static int request(struct runner *r, const struct ctl_request *q, struct ctl_report *ret, int *ret_fd,
		   struct err *e)
{
	int got = 0;

	if (r->state == RUNNER_ENDED || send(r->ctl_fd, q, sizeof(*q), MSG_NOSIGNAL) < 0)
		return err_set(e, ERR_LOST, EPIPE, "the sandbox has ended");
	while (got == 0 && r->state != RUNNER_ENDED)
		got = take(r, 0, ret, ret_fd);
	if (got != 1)
		return err_set(e, ERR_LOST, EPIPE, "the sandbox has ended");
	if (ret->ret < 0)
		return err_set(e, ret->ret == -EOPNOTSUPP ? ERR_UNSUPPORTED : ERR_INTERNAL,
			       -ret->ret, "runner: %s", strerror(-ret->ret));
	return 0;
}

int runner_leaf(struct runner *r, uint32_t exec_id, int *ret_fd, struct err *e)
{
	struct ctl_report a;
	int fd = -1, rc = request(r, &(struct ctl_request){.op = CTL_LEAF, .arg = exec_id}, &a, &fd, e);

	if (rc == 0 && fd < 0)
		return err_set(e, ERR_INTERNAL, EPROTO, "runner: no descriptor came");
	if (rc == 0)
		*ret_fd = fd;
	return rc;
}

int runner_leaf_kill(struct runner *r, uint32_t exec_id, struct err *e)
{
	struct ctl_report a;

	return request(r, &(struct ctl_request){.op = CTL_LEAF_KILL, .arg = exec_id}, &a, NULL, e);
}

int runner_leaf_drop(struct runner *r, uint32_t exec_id, struct err *e)
{
	struct ctl_report a;

	return request(r, &(struct ctl_request){.op = CTL_LEAF_DROP, .arg = exec_id}, &a, NULL, e);
}

int runner_now(struct runner *r, struct runner_now *ret, struct err *e)
{
	struct ctl_report a;
	int rc = request(r, &(struct ctl_request){.op = CTL_NOW}, &a, NULL, e);

	if (rc == 0)
		*ret = a.now;
	return rc;
}

int runner_oom_count(struct runner *r, uint32_t *ret, struct err *e)
{
	struct ctl_report a;
	int rc = request(r, &(struct ctl_request){.op = CTL_OOM_COUNT}, &a, NULL, e);

	if (rc == 0)
		*ret = a.val;
	return rc;
}

int runner_freeze(struct runner *r, bool on, struct err *e)
{
	struct ctl_report a;

	return request(r, &(struct ctl_request){.op = CTL_FREEZE, .arg = on ? 1 : 0}, &a, NULL, e);
}

int runner_deadline(struct runner *r, uint64_t ms, struct err *e)
{
	struct ctl_report a;

	return request(r, &(struct ctl_request){.op = CTL_DEADLINE, .ms = ms}, &a, NULL, e);
}

void runner_kill(struct runner *r)
{
	struct ctl_request q = {.op = CTL_KILL};

	if (r->state != RUNNER_ENDED)
		(void)send(r->ctl_fd, &q, sizeof(q), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* The root process, woken to die, would run before us where it shares our processor: half a
 * millisecond of tearing down. One that runs in batches waits for its turn (sched(7)). */
static void step_back(const struct sandbox *s)
{
	static const struct sched_param none;

	if (s->box.root_pid > 0)
		(void)syscall(SYS_sched_setscheduler, s->box.root_pid, SCHED_BATCH, &none);
}

void runner_finish(struct runner *r, bool account)
{
	if (r->state == RUNNER_ENDED)
		return;
	/* the runner sees the root process die and removes what is left */
	step_back(&r->s);
	sandbox_kill(&r->s);
	if (account)
		sandbox_account(&r->s, &r->end);
	r->left = true;
	r->state = RUNNER_ENDED;
}

void runner_leave(struct runner *r)
{
	int self_fd = r->left && r->pid <= 0 ? sys_pidfd_open(getpid()) : -1;

	gate_leave(&r->gate);
	inspect_leave(&r->inspect);
	if (self_fd < 0 || runner_succeed(&r->s, self_fd) < 0)
		runner_free(r);
}

void runner_wait(struct runner *r, struct runner_end *ret)
{
	struct ctl_report m;

	if (r->pid <= 0 && r->s.box.root_pid > 0 && !r->left) {
		end_here(r); /* never held */
		reap_root(r);
		r->state = RUNNER_ENDED;
	}
	while (r->state != RUNNER_ENDED && take(r, 0, &m, NULL) != -EPIPE)
		;
	if (r->pid > 0 && !r->left) {
		while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
			;
		r->pid = -1;
		if (r->lost) {
			end_here(r);
			r->end.lost = true;
		}
		reap_root(r);
	}
	*ret = r->end;
}

void runner_free(struct runner *r)
{
	struct runner_end end;

	if (r == NULL)
		return;
	runner_kill(r);
	runner_wait(r, &end);
	gate_done(&r->gate);
	inspect_done(&r->inspect);
	/* never held, and left in a hurry: one is forked now to remove what is left */
	if (r->left && runner_hold(r, NULL) < 0)
		r->left = false;
	if (r->agent_fd >= 0)
		(void)close(r->agent_fd);
	if (r->ctl_fd >= 0)
		(void)close(r->ctl_fd);
	if (r->rules_fd >= 0)
		(void)close(r->rules_fd);
	done_needing(r);
	sandbox_done(&r->s);
	free(r);
}

int runner_sweep(void) { return record_sweep(5000); }

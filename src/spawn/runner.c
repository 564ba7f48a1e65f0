#include "base/cleanup.h"
#include "base/num.h"
#include "spawn/program.h"
#include "spawn/record.h"
#include "spawn/runner_priv.h"
#include "sys/call.h"
#include "sys/ids.h"
#include "tier/tier.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * The caller's side: it starts the sandbox, forks the runner (runner_main.c) while the agent works,
 * keeps the host end of the agent's stream and a control socket, and takes over the cleaning up
 * should the runner be killed. The first process is the caller's child.
 */

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

static int tell_gate(struct runner *r, struct err *e)
{
	const struct spec *s = r->spec;
	struct gate_who who = {.sandbox = s->id, .tier = s->tier, .task = s->task};

	return gate_rules(&r->gate, &who, s->egress, strlen(s->egress), r->inspect.peer_fd, e);
}

/* Both are told, then what the second one says is waited for: the sandbox's files need it. */
static int tell_both(struct runner *r, const struct judge *j, struct err *e)
{
	int rc = inspect_start(&r->inspect, r->spec->id, j, r->spec->egress, strlen(r->spec->egress), e);

	if (rc == 0)
		rc = tell_gate(r, e);
	return rc < 0 ? rc : inspect_trust(&r->inspect, e);
}

static int prepare_gate(struct runner *r, const struct spec *spec, struct err *e)
{
	struct judge *j = NULL;
	int rc = r->gate_late ? gate_find(&r->gate, e) : gate_start(&r->gate, e);

	if (rc == 0)
		rc = judge_new(spec->egress, strlen(spec->egress), &j, e);
	if (rc == 0 && r->gate_late && (judge_reads(j) != 0 || gate_reads_secret(spec->egress, strlen(spec->egress)))) {
		r->gate_late = false;
		rc = gate_start(&r->gate, e);
	}
	if (rc == 0 && !r->gate_late)
		rc = tell_both(r, j, e);
	if (rc == 0)
		rc = runner_plan_net(spec, j, &r->net, e);
	judge_free(j);
	return rc;
}

/* The sandbox is up and its sockets are ours: hand them to the gate. */
static int give_gate(struct runner *r, struct err *e)
{
	int rc;

	r->rules_fd = r->s.box.net.fd[NET_RULES];
	r->s.box.net.fd[NET_RULES] = -1;
	rc = r->gate_late ? 0 : gate_give(&r->gate, &r->s.box.net, e);
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
	r->need = (struct sandbox_need){.agent_fd = -1, .init_fd = -1};
}

static int find_sudo(struct runner *r, struct err *e)
{
	_cleanup_close_ int fd = -1;
	bool ours;
	int rc = program_find("brig-sudo", r->sudo_path, sizeof(r->sudo_path), &fd, &ours, e);

	r->need.sudo_path = rc == 0 ? r->sudo_path : NULL;
	return rc;
}

static int prepare(struct runner *r, const struct spec *spec, const struct tier_ops *tier, struct err *e)
{
	struct sandbox_need *need = &r->need;
	int rc = spec_check(spec, e);

	if (rc == 0)
		rc = tier->validate(spec, e);
	if (rc == 0)
		rc = runner_subids(spec, &need->sub_uid, &need->sub_gid, e);
	if (rc == 0)
		rc = program_find("brig-init", r->init_path, sizeof(r->init_path), &need->init_fd,
				  &need->init_is_ours, e);
	if (rc == 0 && spec->sudo != SUDO_NO)
		rc = find_sudo(r, e);
	if (rc == 0 && spec->egress != NULL)
		rc = prepare_gate(r, spec, e);
	need->init_path = r->init_path;
	need->net = r->net;
	need->trust = r->inspect.trust;
	return rc;
}

int runner_new(const struct spec *spec, bool late, struct runner **ret, struct err *e)
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
	r->spec = spec;
	r->gate_late = late && spec->egress != NULL;
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
struct gate *runner_gate(struct runner *r) { return r->gate.ctl_fd >= 0 || r->gate_late ? &r->gate : NULL; }

bool runner_gate_asks(const struct runner *r, int ret_fds[RUNNER_ASKS])
{
	static const enum net_sock asks[RUNNER_ASKS] = {NET_TCP4, NET_TCP6, NET_DNS4, NET_DROPS};

	for (int i = 0; i < RUNNER_ASKS; i++)
		ret_fds[i] = r->s.box.net.fd[asks[i]];
	return r->gate_late;
}

int runner_gate_begin(struct runner *r, struct err *e)
{
	int rc;

	if (!r->gate_late)
		return 0;
	r->gate_late = false;
	rc = gate_start(&r->gate, e);
	if (rc == 0)
		rc = tell_gate(r, e);
	return rc < 0 ? rc : gate_send(&r->gate, &r->s.box.net, e);
}
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

void runner_leave(struct runner *r, int last_fd)
{
	int self_fd = r->left && r->pid <= 0 ? sys_pidfd_open(getpid()) : -1;

	gate_leave(&r->gate);
	inspect_leave(&r->inspect);
	if (self_fd < 0 || runner_succeed(&r->s, self_fd, last_fd) < 0)
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
	while (r->state != RUNNER_ENDED && runner_take(r, 0, &m, NULL) != -EPIPE)
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
	net_socks_close(&r->s.box.net); /* of a gate that never began */
	/* never held, and left in a hurry: one is forked now to remove what is left */
	if (r->left && runner_hold(r, NULL) < 0)
		r->left = false;
	if (r->agent_fd >= 0)
		(void)close(r->agent_fd);
	if (r->ctl_fd >= 0)
		(void)close(r->ctl_fd);
	if (r->rules_fd >= 0)
		(void)close(r->rules_fd);
	free(r->net); /* not before: giving pages back would be time of the start */
	done_needing(r);
	sandbox_done(&r->s);
	free(r);
}

int runner_sweep(void) { return record_sweep(5000); }

#pragma once
/* Between the files that make up runner.h: runner.c (life), runner_plan.c (before it), runner_ask.c (requests). */
#include "gate/judge.h"
#include "net/net.h"
#include "spawn/ctl_priv.h"
#include "spawn/runner.h"

struct runner_later { /* a request whose reply is not waited for */
	runner_told told;
	void *arg;
	uint32_t exec_id;
};

struct runner {
	struct sandbox s;
	struct sandbox_need need; /* until the start */
	struct net_plan *net;	  /* for the start */
	char init_path[512], sudo_path[512];
	pid_t pid;
	int ctl_fd, agent_fd;
	enum runner_state state;
	struct gate gate;
	const struct spec *spec; /* until the gate has begun */
	bool gate_late;          /* it has not begun yet: its sockets are still s.box.net */
	struct inspect inspect;
	int rules_fd; /* NET_RULES of the sandbox's sockets */
	struct runner_end end;
	struct runner_later later[RUNNER_LATER]; /* replies come in the order of requests */
	uint32_t later_n;
	bool lost; /* the runner died before its report */
	bool left; /* runner_finish: the runner ends by itself */
};

/* The subordinate ids that a user other than the image's default needs, and sudo if there are any; 0 = none wanted. */
int runner_subids(const struct spec *s, uint32_t *ret_uid, uint32_t *ret_gid, struct err *e);
/* What may be asked for by the rules j leads to listeners of the gate's. *ret is the caller's (free). */
int runner_plan_net(const struct spec *spec, const struct judge *j, struct net_plan **ret, struct err *e);
/*
 * Take one report, with *ret_fd (may be NULL) what came with a reply. 1 = a CTL_REPLY is in *ret, 0 = something else
 * was taken in, -EAGAIN, -EPIPE = lost. flags as recvmsg(2).
 */
int runner_take(struct runner *r, int flags, struct ctl_report *ret, int *ret_fd);

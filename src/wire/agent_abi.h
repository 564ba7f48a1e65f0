#pragma once
/*
 * What the agent and the container tier's seccomp filter agree on besides the protocol.
 *
 * The agent clones execs into their cgroup, which only clone3(2) can. A filter cannot look into
 * clone3's argument, so for everybody else clone3 is ENOSYS and C libraries fall back to clone(2),
 * whose flags are checked. The agent is told apart by where its argument lies. That is no secret and
 * need not be one: clone3 makes no user namespace here (user.max_user_namespaces is 0), and the
 * other namespaces need a capability that nobody inside has.
 */
#define AGENT_CLONE3_ARGS UINT64_C(0x627269670000)

#!/bin/sh
# A hostile program in the agent's place, as a delegated user on a kernel without Landlock: there its cgroup leaf is a folder of
# the caller's own that it can write to.
exec "$(dirname "$0")/boot.sh" "lsm=" tools/vm/as.sh delegated tester env BRIG_OWN_LEAF=1 BRIG_MUST_RUN=1 \
	BRIG_CASES="${BRIG_CASES:-as_pid_1_(agent_place|leaked_fds)|honest|below_the_leaf}" \
	tests/escape/agent.t

#!/bin/sh
# The limits cases of the suite that every tier must pass, as a delegated user on cgroup v2.
# Those that time an end to 100 ms are not for an emulated machine: guest/cgroup2.py has them with slack.
exec "$(dirname "$0")/boot.sh" "" tools/vm/as.sh delegated tester \
	env BRIG_CASES='limit|c14|c15_fork_bomb_gets|shorter' BRIG_MUST_RUN=1 tests/behaviour/processes.t

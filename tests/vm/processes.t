#!/bin/sh
# The limits cases of the suite that every tier must pass, as a delegated user on cgroup v2.
exec "$(dirname "$0")/boot.sh" "" tools/vm/as.sh delegated tester \
	env BRIG_CASES='limit|c08|c14|c15|timeout|timed' BRIG_MUST_RUN=1 tests/behaviour/processes.t

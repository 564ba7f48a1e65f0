#!/bin/sh
# The same kernel without Landlock: what depends on it, and a start of everything else.
exec "$(dirname "$0")/boot.sh" "lsm=" tests/vm/guest/cgroup2.py \
	'kernel is|landlock|limits are|only the hog|whatever hides|killed$|work|inside|overlay|check says'

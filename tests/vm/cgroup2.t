#!/bin/sh
# One boot of Debian's 6.1 kernel with cgroup v2 only.
exec "$(dirname "$0")/boot.sh" "" tests/vm/guest/cgroup2.py "$@"

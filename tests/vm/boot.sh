#!/bin/sh
# boot.sh KERNEL-ARGS CMD...: CMD in the test guest, its TAP as ours. Where the guest cannot be had the
# file is skipped, or failed when BRIG_MUST_RUN is set.
top=$(dirname "$0")/../..
append=$1
shift
if ! command -v qemu-system-x86_64 > /dev/null; then
	if [ -n "${BRIG_MUST_RUN:-}" ]; then
		echo "1..1"
		echo "not ok 1 - qemu-system-x86 is not installed"
		exit 1
	fi
	echo "1..0 # SKIP qemu-system-x86 is not installed"
	exit 0
fi
if ! [ -x "$top/build/brig" ] || ! [ -x "$top/build/brig-init" ]; then
	echo "1..1"
	echo "not ok 1 - build/brig or build/brig-init is missing: run make"
	exit 1
fi
exec "$top/tools/vm/run.sh" --timeout "${BRIG_VM_TIMEOUT:-840}" --append "$append" -- env PYTHONUNBUFFERED=1 "$@"

#!/bin/sh
# A host whose mounts are shared, as systemd makes them: no mount of a sandbox appears there.
# Needs root, for a mount namespace that plays the host.
top=$(cd "$(dirname "$0")/../.." && pwd)
brig=${BRIG:-$top/build/brig}
if [ "$(id -u)" != 0 ]; then
	echo "1..0 # SKIP needs root"
	exit 0
fi
[ "${1:-}" = inside ] || exec unshare -m --propagation private "$0" inside
mount --make-rshared / || exit 1
nr=0
check() { # check WHAT OPTION...
	what=$1
	shift
	before=$(cut -d' ' -f5- /proc/self/mountinfo | sort)
	out=$("$brig" run "$@" -- sh -c 'echo ran' 2>&1)
	after=$(cut -d' ' -f5- /proc/self/mountinfo | sort)
	nr=$((nr + 1))
	if [ "$out" = ran ] && [ "$before" = "$after" ]; then
		echo "ok $nr - $what"
	else
		echo "not ok $nr - $what"
		echo "# $out"
		echo "$after" | grep -vxF "$before" | sed 's/^/# /'
	fi
}
check "readonly root"
check "overlay root" --root overlay --user root
check "a folder as root" --image / --user root
echo "1..$nr"

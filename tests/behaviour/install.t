#!/bin/bash
# `make install` with a prefix of its own, from a build outside the tree's: what was installed works by
# itself, and `make uninstall` leaves nothing. It starts from the tree's objects, of which
# make knows those that have to do with the prefix.
set -u
cd "$(dirname "$0")/../.." || exit 1
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
chmod 755 "$top"
n=0 failed=0

check() {
	local name=$1 out
	shift
	n=$((n + 1))
	if out=$("$@" 2>&1); then
		echo "ok $n - $name"
	else
		echo "not ok $n - $name"
		while IFS= read -r line; do echo "# $line"; done <<<"$out"
		failed=1
	fi
}
mk() { make --no-print-directory -j2 O="$top/obj" OUT="$top/bin" PREFIX="$top/usr" SYSCONFDIR="$top/etc" "$@"; }
same() { [ "$1" = "$2" ] || { printf 'got  %s\nwant %s\n' "$1" "$2"; return 1; }; }

cp -a build/obj/release "$top/obj"
check "make install" mk install
rm -rf "${top:?}/bin" # so that only the installed brig-init can be found
brig=$top/usr/bin/brig
check "the installed brig tells its version" grep -qF "$(cat VERSION)" <<<"$("$brig" version 2>&1)"
export BRIG_STATE=$top/state
check "and runs a command" same "$("$brig" run -- echo hello 2>&1)" hello
shopt -s nullglob
for page in docs/man/*.[1-8]; do
	check "man page ${page##*/}" cmp "$page" "$top/usr/share/man/man${page##*.}/${page##*/}"
done
# What keeps a brigd that was taken over small; systemd's own count of what is left open to it, where it is installed.
unit=$top/usr/lib/systemd/system/brigd.service
has() { for x in "$@"; do grep -qxF "$x" "$unit" || { echo "no $x"; return 1; }; done; }
check "brigd's unit checks the configuration first" has "ExecStartPre=$top/usr/sbin/brigd --check-config" "User=brigd"
check "brigd's unit leaves it no privilege" has CapabilityBoundingSet= AmbientCapabilities= NoNewPrivileges=yes ProtectSystem=strict \
	ProtectHome=yes PrivateDevices=yes RestrictNamespaces=yes MemoryDenyWriteExecute=yes SystemCallFilter=@system-service \
	'SystemCallFilter=~@privileged' 'RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6'
if command -v systemd-analyze >/dev/null; then
	check "systemd finds at most 2.0 of 10 exposed" systemd-analyze security --offline=yes --threshold=20 "$unit"
fi
before=$(find "$top/usr" -type f | wc -l)
check "something to remove" test "$before" -ge 3

check "make uninstall" mk uninstall
check "nothing is left" same "$(find "$top/usr" "$top/etc" -type f 2>/dev/null)" ""
echo "1..$n"
exit $failed

#!/bin/bash
# Try a command on a bare Debian 12: tools/bare_test.sh [--keep] [CMD...], by default ./demo.
#
# Makes a system with only essential packages and apt (mmdebstrap, the machine's own mirror), kept in
# the cache, copies the files git knows to /root/brig in it and runs CMD there as root, in mount, pid
# and uts namespaces of its own. Not part of the test run: it needs root and fetches packages.
# --keep leaves the copy in place and prints where.
set -euo pipefail
top=$(dirname "$(dirname "$(readlink -f "$0")")")
keep=
if [ "${1:-}" = --keep ]; then
	keep=1
	shift
fi
[ $# -gt 0 ] || set -- ./demo
[ "$(id -u)" = 0 ] || { echo "bare_test: needs root" >&2; exit 1; }
command -v mmdebstrap >/dev/null || { echo "bare_test: needs mmdebstrap" >&2; exit 1; }

cache=${BRIG_CACHE:-/var/cache/brig}/bare
mkdir -p "$cache"
if [ ! -s "$cache/bookworm.tar" ]; then
	mmdebstrap --quiet --variant=minbase bookworm "$cache/bookworm.tar.new"
	mv "$cache/bookworm.tar.new" "$cache/bookworm.tar"
fi
root=$(mktemp -d "$cache/root.XXXXXX")
if [ -n "$keep" ]; then
	echo "bare_test: $root"
else
	trap 'rm -rf --one-file-system "$root"' EXIT
fi
tar -xf "$cache/bookworm.tar" -C "$root"
mkdir -p "$root/root/brig" "$root/.old"
git -C "$top" ls-files -z --cached --others --exclude-standard |
	(cd "$top" && tar -c --null --ignore-failed-read -T -) | tar -x --no-same-owner -C "$root/root/brig"
for f in /etc/resolv.conf /etc/hosts; do [ ! -e $f ] || cp -L $f "$root$f"; done

# pivot_root, not chroot: user namespaces cannot be made from within a chroot.
status=0
unshare --mount --pid --uts --fork bash -c '
	set -e
	root=$1
	shift
	mount --bind "$root" "$root"
	mount --rbind /sys "$root/sys"
	mount --rbind /dev "$root/dev"
	mount -t proc proc "$root/proc"
	mount -t tmpfs tmpfs "$root/tmp"
	cd "$root"
	pivot_root . .old
	umount -l /.old
	cd /root/brig
	exec /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM="${TERM:-dumb}" \
		http_proxy="${http_proxy:-}" "$@"' bare_test "$root" "$@" || status=$?
exit "$status"

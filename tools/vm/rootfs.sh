#!/bin/bash
# The guest's read-only root: prints the folder that holds `root.ext4`.
#
# Made of the files of some packages as they are installed on this machine, so the guest runs the
# very programs and libraries the build was linked with. ext4 because that is what a real host has
# below /usr, and because the 6.1 kernel can give it idmapped mounts (not so overlay, tmpfs, 9p).
# Needs no privilege: an ordinary user packs it in a user namespace, so that the files belong to root.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tools/vm/cache.sh
. "$here/cache.sh"

PACKAGES="base-files base-passwd bash coreutils dash util-linux mount procps findutils grep sed mawk
	tar gzip python3 perl uidmap libc-bin strace iproute2"

# build OUT PACKAGE...: runs as (name space) root.
build() {
	local out=$1 stage
	shift
	stage=$(dirname "$out")/stage
	mkdir -p "$stage"/usr/{bin,sbin,lib,lib64}
	for d in bin sbin lib lib64; do ln -s usr/$d "$stage/$d"; done
	# Documentation and translations are half of the bytes and no program here reads them.
	dpkg -L "$@" | grep -Ev '^/usr/share/(doc|man|locale|info|lintian|bug|zoneinfo)(/|$)|^/(var|home|root|run|tmp|boot)(/|$)' |
		sed -E 's,^/(bin|sbin|lib|lib64)/,/usr/\1/,' | sort -u > "$stage.list"
	while read -r f; do
		if [ -L "$f" ] || [ -f "$f" ]; then echo ".$f"; fi
	done < "$stage.list" > "$stage.files"
	# The links update-alternatives made belong to no package.
	find /usr/bin /usr/sbin -type l -lname '/etc/alternatives/*' -printf '.%p\n' >> "$stage.files"
	tar -c -C / --no-recursion --ignore-failed-read --warning=no-failed-read -T "$stage.files" |
		tar -x -C "$stage" --no-same-owner -p
	cp -a --no-preserve=ownership /etc/alternatives "$stage/etc/"
	busybox=$(command -v busybox) && cp "$busybox" "$stage/usr/bin/busybox"
	for d in proc sys dev run tmp var home root brig usr/local/bin usr/src; do mkdir -p "$stage/$d"; done
	chmod 700 "$stage/root"
	{
		echo root:x:0:0:root:/root:/bin/bash
		echo nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
		echo tester:x:1000:1000::/home/tester:/bin/bash
		echo subber:x:1001:1001::/home/subber:/bin/bash
	} > "$stage/etc/passwd"
	printf 'root:x:0:\nnogroup:x:65534:\ntester:x:1000:\nsubber:x:1001:\n' > "$stage/etc/group"
	# `tester` has no subordinate ids, `subber` has.
	echo subber:200000:65536 | tee "$stage/etc/subuid" > "$stage/etc/subgid"
	printf 'passwd: files\ngroup: files\nhosts: files\n' > "$stage/etc/nsswitch.conf"
	printf '127.0.0.1 localhost brigvm\n::1 localhost\n' > "$stage/etc/hosts"
	echo brigvm > "$stage/etc/hostname"
	for f in ld.so.conf ld.so.conf.d; do cp -a --no-preserve=ownership "/etc/$f" "$stage/etc/"; done
	/sbin/ldconfig -r "$stage"
	/sbin/mke2fs -q -t ext4 -O ^has_journal -m 0 -N 20000 -E root_owner=0:0 -d "$stage" "$out" \
		"$(($(du -sm "$stage" | cut -f1) * 5 / 4 + 32))M"
	rm -rf "$stage" "$stage.list" "$stage.files"
}

if [ "${1:-}" = --build ]; then
	shift
	build "$@"
	exit
fi

! vm_known "$here/rootfs.sh" || exit 0
# All that is installed of what the packages need.
# shellcheck disable=SC2086
all=$(apt-cache depends --recurse --installed --no-recommends --no-suggests --no-conflicts \
	--no-breaks --no-replaces --no-enhances $PACKAGES | grep -E '^[a-z]' | sort -u)
# shellcheck disable=SC2086
all=$({ dpkg-query -W -f '${db:Status-Abbrev} ${binary:Package} ${Version}\n' $all 2>/dev/null || :; } |
	awk '$1 == "ii" { print $2, $3 }' | sort)
for p in bash python3 perl uidmap; do
	grep -q "^$p\(:\| \)" <<< "$all" || vm_die "package $p is not installed here"
done
cache=$(vm_cache)
dir=$cache/root-$({ cat "$here/rootfs.sh" && echo "$all" && cat "$(command -v busybox)"; } | vm_hash)
if [ ! -d "$dir" ]; then
	tmp=$(mktemp -d "$cache/tmp.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	mkdir "$tmp/out"
	ns=()
	[ "$(id -u)" = 0 ] || ns=(unshare -r)
	# shellcheck disable=SC2046
	"${ns[@]}" "$here/rootfs.sh" --build "$tmp/out/root.ext4" $(cut -d' ' -f1 <<< "$all") >&2
	vm_publish "$tmp/out" "$dir"
fi
vm_know "$here/rootfs.sh" "$dir"
echo "$dir"

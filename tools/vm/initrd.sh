#!/bin/bash
# The guest's first file system: prints the folder that holds `initrd`. Static busybox, the kernel's
# modules and init-stage1. Argument: the folder kernel.sh printed.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tools/vm/cache.sh
. "$here/cache.sh"
kernel=${1:?folder of the kernel}

busybox=$(command -v busybox) || vm_die "busybox-static is not installed here"
cache=$(vm_cache)
dir=$cache/initrd-$({ cat "$here/initrd.sh" "$here/init-stage1" "$busybox" && basename "$kernel"; } | vm_hash)
if [ ! -d "$dir" ]; then
	tmp=$(mktemp -d "$cache/tmp.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	mkdir -p "$tmp/out" "$tmp/fs"/{bin,mod,dev,proc,new}
	cp "$busybox" "$tmp/fs/bin/busybox"
	ln -s busybox "$tmp/fs/bin/sh"
	cp "$here/init-stage1" "$tmp/fs/init"
	chmod 755 "$tmp/fs/init" "$tmp/fs/bin/busybox"
	cp "$kernel"/*.ko "$tmp/fs/mod/"
	(cd "$tmp/fs" && find . | "$busybox" cpio -o -H newc -R 0:0 2>/dev/null) > "$tmp/out/initrd"
	vm_publish "$tmp/out" "$dir"
fi
echo "$dir"

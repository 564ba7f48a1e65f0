#!/bin/bash
# Debian's stock kernel for the test guest: prints the folder that holds `vmlinuz`, `config`,
# `version` and the modules the guest loads, fetching the package first when it is not cached.
#
# The cloud flavour is the same kernel with fewer drivers; all the guest needs is in it. apt checks
# the archive's signature; the folder's name is the package's SHA-256 from that signed index.
# BRIG_VM_DEB=FILE takes a given package instead.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tools/vm/cache.sh
. "$here/cache.sh"

META=linux-image-cloud-amd64
# In the order they must be loaded.
MODULES="virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_blk
	virtio_console overlay"

me=$here/kernel.sh
[ -n "${BRIG_VM_DEB:-}" ] || ! vm_known "$me" || exit 0
cache=$(vm_cache)
deb=${BRIG_VM_DEB:-} pkg=''
if [ -n "$deb" ]; then
	sum=$(sha256sum "$deb" | cut -d' ' -f1)
else
	pkg=$(apt-cache depends "$META" 2>/dev/null | sed -n 's/^ *Depends: *\(linux-image-[0-9].*\)/\1/p' | head -n1)
	sum=$([ -z "$pkg" ] || apt-cache show --no-all-versions "$pkg" | sed -n 's/^SHA256: //p' | head -n1)
	if [ -z "$sum" ]; then # no package lists here: whatever was used last will do
		last=$(find "$cache" -maxdepth 1 -name 'kernel-*' -printf '%T@ %p\n' | sort -n | tail -n1 | cut -d' ' -f2)
		[ -n "$last" ] || vm_die "apt knows no $META; run apt-get update or set BRIG_VM_DEB"
		echo "$last"
		exit
	fi
fi
# The list of modules is part of the result, so of the name.
dir=$cache/kernel-${sum:0:24}-$(echo "$MODULES" | vm_hash | cut -c1-8)
if [ ! -d "$dir" ]; then
	tmp=$(mktemp -d "$cache/tmp.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	mkdir "$tmp/out" "$tmp/deb"
	if [ -z "$deb" ]; then
		opt=()
		[ "$(id -u)" != 0 ] || opt=(-o APT::Sandbox::User=root)
		(cd "$tmp/deb" && apt-get "${opt[@]}" -q download "$pkg" >&2)
		deb=$(echo "$tmp"/deb/*.deb)
		[ "$(sha256sum "$deb" | cut -d' ' -f1)" = "$sum" ] || vm_die "$pkg: not the package the index names"
	fi
	dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$tmp/deb" --no-same-owner ./boot ./lib/modules
	mv "$tmp"/deb/boot/vmlinuz-* "$tmp/out/vmlinuz"
	mv "$tmp"/deb/boot/config-* "$tmp/out/config"
	basename "$tmp"/deb/lib/modules/* > "$tmp/out/version"
	n=10
	for m in $MODULES; do
		f=$(find "$tmp/deb/lib/modules" -name "$m.ko" -o -name "${m//_/-}.ko" | head -n1)
		[ -n "$f" ] || vm_die "$pkg has no module $m"
		mv "$f" "$tmp/out/$n-$m.ko"
		n=$((n + 1))
	done
	vm_publish "$tmp/out" "$dir"
fi
[ -n "${BRIG_VM_DEB:-}" ] || vm_know "$me" "$dir"
echo "$dir"

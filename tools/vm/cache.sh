# Sourced by the builders in this folder: where what they make is kept, and how it gets there.
#
# Everything lies in one folder outside the tree, under a name that holds the hash of all that went
# into it: the same inputs are never built twice, changed inputs never meet an old result. A result
# is built under a temporary name and renamed when complete, so an interrupted builder leaves nothing
# that looks finished, and of two builders at once the second throws its copy away.
# shellcheck shell=bash

vm_die() {
	echo "vm: $*" >&2
	exit 1
}

vm_cache() {
	local base=${BRIG_CACHE:-}
	if [ -z "$base" ]; then
		if [ -n "${XDG_CACHE_HOME:-}" ]; then
			base=$XDG_CACHE_HOME/brig
		elif [ "$(id -u)" = 0 ]; then
			base=/var/cache/brig
		else
			base=${HOME:?}/.cache/brig
		fi
	fi
	mkdir -p "$base/vm" || return 1
	echo "$base/vm"
}

# vm_hash: the first 32 hex digits of the SHA-256 of standard input.
vm_hash() {
	sha256sum | cut -c1-32
}

# vm_publish TMP FINAL: TMP becomes FINAL unless another builder was faster.
vm_publish() {
	if ! mv -T "$1" "$2" 2>/dev/null; then
		rm -rf "$1"
		[ -d "$2" ] || vm_die "cannot create $2"
	fi
}

# What apt and dpkg know takes seconds to ask. vm_known SCRIPT prints the answer given last time when
# neither they nor the script have changed since and it still exists; vm_know SCRIPT DIR keeps one.
vm_key() {
	echo "$(vm_cache)/known-$(basename "$1")-$({
		cat "$1"
		stat -c '%n %Y %s' /var/lib/apt/lists /var/lib/dpkg/status 2>/dev/null
	} | vm_hash)"
}
vm_known() {
	local dir
	dir=$(cat "$(vm_key "$1")" 2>/dev/null) && [ -d "$dir" ] && echo "$dir"
}
vm_know() {
	local key tmp
	key=$(vm_key "$1")
	tmp=$(mktemp "$(vm_cache)/tmp.XXXXXX")
	echo "$2" > "$tmp" && mv "$tmp" "$key"
}

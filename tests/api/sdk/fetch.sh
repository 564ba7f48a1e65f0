#!/bin/bash
# Fetch the SDKs that package-lock.json pins by hash, with npm, into the cache outside the tree, and a Node.js new enough for
# them where the system's is not. Prints the folder: node_modules in it, and bin/node.
# The folder's name is the hash of all that went into it (see tools/vm/cache.sh).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/vm/cache.sh
. "$here/../../../tools/vm/cache.sh"

# ">=20.18.1 <21 || >=22"
new_enough() {
	node -e 'const [a, b, c] = process.versions.node.split(".").map(Number);
		process.exit(a >= 22 || (a === 20 && (b > 18 || (b === 18 && c >= 1))) ? 0 : 1)' 2>/dev/null
}

command -v npm >/dev/null || { echo "npm is not there" >&2; exit 1; }
system=$(new_enough && command -v node || echo none)
dir=$(vm_cache)/sdk-$({ cat "$here/package.json" "$here/package-lock.json" "$here/fetch.sh" && echo "$system"; } | vm_hash)
if [ ! -d "$dir" ]; then
	tmp=$(mktemp -d "$(vm_cache)/tmp.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	cp "$here/package.json" "$here/package-lock.json" "$tmp"
	(cd "$tmp" && npm ci --ignore-scripts --no-audit --no-fund >&2)
	mkdir "$tmp/bin"
	if [ "$system" = none ]; then
		# its binary comes as a package of its own; the script of the first only links it
		mkdir "$tmp/node" && (cd "$tmp/node" && npm i --no-audit --no-fund node@20.20.0 >&2)
		ln -s ../node/node_modules/node/bin/node "$tmp/bin/node"
	else
		ln -s "$system" "$tmp/bin/node"
	fi
	vm_publish "$tmp" "$dir"
fi
echo "$dir"

#!/bin/bash
# The checks that look at the tree as a whole, one test each.
set -u
n=0 failed=0

# check NAME CMD...: the command's output is shown when it fails.
check() {
	local name=$1 out
	shift
	n=$((n + 1))
	if out=$("$@" 2>&1); then
		echo "ok $n - $name"
	else
		echo "not ok $n - $name"
		[ -z "$out" ] || while IFS= read -r line; do echo "# $line"; done <<<"$out"
		failed=1
	fi
}

# Every tracked or new file of the tree, without ignored ones; plain find where there is no git.
tree() {
	git ls-files --cached --others --exclude-standard 2>/dev/null ||
		find . -path ./build -prune -o -path ./.git -prune -o -type f -printf '%P\n'
}
shell_scripts() {
	local f
	while IFS= read -r f; do
		[ -f "$f" ] || continue
		case $f in
		*.sh | *.bash) echo "$f" ;;
		*) if head -c 64 -- "$f" | head -n 1 | grep -qaE '^#!(/usr)?/bin/(env )?(ba|da)?sh'; then echo "$f"; fi ;;
		esac
	done < <(tree)
}
manuals() {
	local f
	for f in docs/man/*.[1-8]; do
		[ -f "$f" ] || { echo "no man page in docs/man"; return 1; }
		# Style hints are not findings; warnings and errors are.
		mandoc -T lint -W warning "$f" || return
	done
}
executable() {
	local f bad=0
	for f in tests/*/*.t; do
		[ -x "$f" ] || { echo "$f is not executable"; bad=1; }
	done
	return "$bad"
}
seccomp_doc() {
	tools/gen_seccomp_doc.sh | diff - docs/security/seccomp.md || { echo "run: make docs"; return 1; }
}
# Every reason of a record and every key of a rule is in the documents, and every reason in the code is a row.
egress_tables() {
	local word bad=0
	for word in $(sed -n 's/^REASON("\([a-z_]*\)".*/\1/p' src/gate/reasons.def); do
		grep -q "^| \`$word\` |" docs/egress.md || { echo "docs/egress.md: no reason $word"; bad=1; }
		grep -q "^\.It Li $word " docs/man/brig-egress.5 || { echo "brig-egress(5): no reason $word"; bad=1; }
	done
	for word in $(sed -n 's/^KEY([A-Z_]*, *"\([a-z0-9_]*\)".*/\1/p' src/egress/keys.def); do
		grep -q "^\.It Cm $word " docs/man/brig-egress.5 || { echo "brig-egress(5): no key $word"; bad=1; }
	done
	for word in $(grep -rhoE '(deny\(|reason = |\.reason = )[^;]*' src/gate/*.c src/relay/*.c src/inspect/*.c 2>/dev/null |
		grep -oE '"[a-z_0-9]+"' | tr -d '"' | sort -u); do
		grep -q "^REASON(\"$word\"," src/gate/reasons.def || { echo "src/gate/reasons.def: no row for $word"; bad=1; }
	done
	return "$bad"
}
no_conflict_marks() {
	local found
	found=$(tree | grep -vE '^tests/fuzz/corpus/' | xargs -d '\n' grep -lE '^(<<<<<<<|>>>>>>>) ' 2>/dev/null)
	[ -z "$found" ] || { echo "$found"; return 1; }
}
cpp_check() {
	# readdirCalled, fgetpwentCalled: no program here has threads.
	# memleak, resourceLeak: it does not know __attribute__((cleanup)), so every owned local is one.
	# leakReturnValNotUsed: it takes mmap at a fixed address for an allocation.
	cppcheck --quiet --enable=warning,portability --error-exitcode=1 --inline-suppr --std=c11 \
		--library=posix --library=gnu -D_GNU_SOURCE -D__x86_64__ -DBRIG_VERSION='"0"' \
		-DBRIG_LIBEXECDIR='"/"' -DBRIG_SBINDIR='"/"' -Isrc -Ibuild/gen -j2 --cppcheck-build-dir=build/cppcheck \
		--suppress=missingInclude --suppress=readdirCalled --suppress=fgetpwentCalled --suppress=memleak --suppress=resourceLeak \
		--suppress=leakReturnValNotUsed --suppress='*:build/gen/*' src
}

mkdir -p build/cppcheck
check "layers: who may include whom" tools/check_layers.py
check "no banned libc function" tools/check_banned.sh build/obj/release/src
check "every decoder of foreign bytes is fuzzed" tools/check_hostile.py
check "what the documents name exists" tools/check_docs.py
check "cppcheck" cpp_check
mapfile -t scripts < <(shell_scripts)
check "shellcheck: ${#scripts[@]} scripts" shellcheck -x -S warning "${scripts[@]}"
check "reasons and keys of egress rules are documented" egress_tables
check "each published way round the gate has its test" /usr/bin/python3 tests/lib/published.py
check "man pages" manuals
check "test files are executable" executable
check "docs/security/seccomp.md is the table's" seccomp_doc
check "every attack is in the escape matrix, and held" tools/gen_escape_matrix.py --check
check "no conflict marks" no_conflict_marks
tools/check_sizes.py src | sed 's/^/# /' # a report, never a failure
echo "1..$n"
exit $failed

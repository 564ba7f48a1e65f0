#!/bin/bash
# `make demo`: a five-minute tour of brig. Shows each command before it runs it, and at the end checks
# that nothing of any sandbox is left. Exit status 0: everything went as told.
set -u
cd "$(dirname "$0")/.." || exit 1
brig=${BRIG:-build/brig}
# The sandboxes get files and give some back; all of that happens in a folder of our own.
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
wrong=0

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
	bold=$'\e[1m' dim=$'\e[2m' off=$'\e[0m' color=1
else
	bold='' dim='' off='' color=0
fi
title() { printf '\n%s%s%s\n' "$bold" "$1" "$off"; }
text() { printf '%s\n' "$@" | fold -s -w 98; }
# run EXPECTED-STATUS BRIG-ARGUMENT...
run() {
	local expected=$1 shown='' status=0 a
	shift
	for a in "$@"; do
		case $a in
		*[!A-Za-z0-9_./:=,-]*) shown+=" '$a'" ;;
		*) shown+=" $a" ;;
		esac
	done
	printf '\n  %s$ brig%s%s\n' "$dim" "${shown//$work/\$tmp}" "$off"
	"$brig" "$@" || status=$?
	if [ "$status" != "$expected" ]; then
		echo "tour: exit status $status, not $expected" >&2
		wrong=1
	fi
}

# What a sandbox could leave behind: processes, mounts, cgroups, files.
processes() {
	local f n=0
	for f in /proc/[0-9]*/cmdline; do
		if tr '\0' ' ' <"$f" 2>/dev/null | grep -qE '^brig-init |untrusted\.py|^sleep 4242'; then n=$((n + 1)); fi
	done
	echo "$n"
}
mounts() { wc -l </proc/self/mountinfo; }
cgroups() { find /sys/fs/cgroup -mindepth 2 -type d -path '*/brig/*/*' 2>/dev/null | wc -l; }
left() { echo "$(processes) $(mounts) $(cgroups)"; }
before=$(left)

title "1. Code nobody should trust"
text "A Python program does the job it was given, and then tries what code that was talked into" \
	"something might try. The caller has a secret in its environment; the sandbox has a memory limit" \
	"of 256 MiB, a disk of 64 MiB and 64 processes. The report it made is copied out."
export DEMO_SECRET_TOKEN=swordfish
run 0 run --memory 256M --disk 64M --pids 64 --timeout 60s --env COLOR=$color \
	--file examples/sales.csv --out "report.txt:$work/report.txt" examples/untrusted.py
if [ -s "$work/report.txt" ]; then
	printf '\n  report.txt, on the host now:\n'
	sed 's/^/    /' "$work/report.txt"
else
	echo "tour: no report came out" >&2
	wrong=1
fi

title "2. The clock is a wall"
text "It ignores signals, starts a session of its own and forks twice. After one second all of it is gone."
start=$(date +%s%N)
# shellcheck disable=SC2016 # for the sandbox's shell
run 124 run --timeout 1s -- sh -c 'trap "" INT TERM HUP; (setsid sleep 4242 &); while :; do :; done'
printf '  exit status 124 after %d ms, from start to nothing left\n' $((($(date +%s%N) - start) / 1000000))

title "3. What happened, for programs"
run 7 run --json --memory 256M -- python3 -c 'print("hello"); raise SystemExit(7)'

title "4. Changes come back as a patch, not as a surprise"
text "A copy of a folder goes in, an agent edits it, and what changed comes out for review."
mkdir "$work/src"
printf 'def area(r):\n    return 3.14 * r * r\n' >"$work/src/circle.py"
run 0 run --file "$work/src:src" --out-patch "$work/changes.patch" -- \
	sed -i -e '1i import math' -e 's/3.14/math.pi/' src/circle.py
[ ! -s "$work/changes.patch" ] || sed 's/^/    /' "$work/changes.patch"

title "5. Nothing is left"
after=$(left)
read -r p0 m0 c0 <<<"$before"
read -r p1 m1 c1 <<<"$after"
printf '  %-30s %s\n' "processes of the sandboxes" $((p1 - p0)) "mounts" $((m1 - m0)) "cgroups" $((c1 - c0))
if [ "$p1" -gt "$p0" ] || [ "$m1" -gt "$m0" ] || [ "$c1" -gt "$c0" ]; then
	wrong=1
fi

title "Next"
text "  $brig check           what this machine offers, and what is missing" \
	"  $brig help run        every option" \
	"  $brig run -it -- bash look around yourself"
[ $wrong = 0 ] || echo "tour: something did not go as told above" >&2
exit $wrong

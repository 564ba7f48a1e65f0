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
runs=0
exec 3>&1 # where commands are shown, also when their output goes elsewhere

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
		*\'*) shown+=" \"$a\"" ;;
		*[!A-Za-z0-9_./:=,-]*) shown+=" '$a'" ;;
		*) shown+=" $a" ;;
		esac
	done
	printf '\n  %s$ brig%s%s\n' "$dim" "${shown//$work/\$tmp}" "$off" >&3
	shift # past `run`; the result file tells the sandbox's id, for the check at the end
	runs=$((runs + 1))
	"$brig" run --result-file "$work/result.$runs" "$@" || status=$?
	if [ "$status" != "$expected" ]; then
		echo "tour: exit status $status, not $expected" >&2
		wrong=1
	fi
}

# What the sandboxes could leave behind: processes, by what they run and by their cgroup; cgroups;
# mounts; records. Other sandboxes of this machine do not count.
ids() { sed -n 's/.*"id": *"\([a-z0-9]*\)".*/\1/p' "$work"/result.* 2>/dev/null; }
processes() {
	local dir id n=0 shown
	for dir in /proc/[0-9]*; do
		shown=$({ tr '\0' ' ' <"$dir/cmdline" && cat "$dir/cgroup"; } 2>/dev/null)
		for id in untrusted.py "sleep $marker" $(ids); do
			case $shown in *"$id"*) n=$((n + 1)) && break ;; esac
		done
	done
	echo "$n"
}
cgroups() {
	local id
	for id in $(ids); do find /sys/fs/cgroup -type d -name "$id" 2>/dev/null; done | wc -l
}
mounts() {
	local id
	for id in $(ids); do grep -F "$id" /proc/self/mountinfo; done | wc -l
}
records() { find "$BRIG_STATE" -type f 2>/dev/null | while read -r f; do [ ! -s "$f" ] || echo "$f"; done | wc -l; }
marker=42$$
export BRIG_STATE=$work/state

title "1. Code nobody should trust"
text "A Python program does the job it was given, and then tries what code that was talked into" \
	"something might try. The caller has a secret in its environment; the sandbox has a memory limit" \
	"of 256 MiB, a disk of 64 MiB and 64 processes. The report it made is copied out."
export DEMO_SECRET_TOKEN=swordfish
run 0 run -v --memory 256M --disk 64M --pids 64 --timeout 60s --env COLOR=$color \
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
run 124 run --timeout 1s -- \
	sh -c "trap '' INT TERM HUP; (setsid sleep $marker &); while :; do :; done"
printf '  exit status 124 after %d ms, from start to nothing left\n' $((($(date +%s%N) - start) / 1000000))

title "3. What happened, for programs"
run 7 run --json --memory 256M -- python3 -c 'print("hello"); raise SystemExit(7)' >"$work/json"
# One long line; folded for people.
sed -e 's/,"/, "/g' "$work/json" | fold -s -w 94 | sed '/^{/,$s/^/  /'

title "4. Changes come back as a patch, not as a surprise"
text "A copy of a folder goes in, an agent edits it, and what changed comes out for review."
mkdir "$work/src"
printf 'def area(r):\n    return 3.14 * r * r\n' >"$work/src/circle.py"
run 0 run --file "$work/src:src" --out-patch "$work/changes.patch" -- \
	sed -i -e '1i import math' -e 's/3.14/math.pi/' src/circle.py
[ ! -s "$work/changes.patch" ] || sed 's/^/    /' "$work/changes.patch"

title "5. Nothing is left"
for what in processes cgroups mounts records; do
	n=$($what)
	printf '  %-12s%s\n' "$what" "$n"
	[ "$n" = 0 ] || wrong=1
done

title "Next"
text "  $brig check           what this machine offers, and what is missing" \
	"  $brig help run        every option" \
	"  $brig run -it -- bash look around yourself"
[ $wrong = 0 ] || echo "tour: something did not go as told above" >&2
exit $wrong

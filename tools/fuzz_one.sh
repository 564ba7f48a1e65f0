#!/bin/sh
# Run one libFuzzer target for some seconds as one TAP test: tools/fuzz_one.sh SECONDS PROGRAM.
# Starts from the committed corpus; what it finds new goes below build/, and so does a crashing input.
set -u
seconds=$1
program=$2
name=$(basename "$program")
found=build/fuzz/$name
mkdir -p "$found/corpus"
seeds=tests/fuzz/corpus/$name
set -- "$found/corpus"
[ ! -d "$seeds" ] || set -- "$@" "$seeds"

echo 1..1
if "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
	-artifact_prefix="$found/" "$@" >"$found/log" 2>&1; then
	echo "ok 1 - $name: $(sed -n 's/.*number_of_executed_units: *//p' "$found/log") inputs"
else
	echo "not ok 1 - $name"
	tail -n 60 "$found/log" | sed 's/^/# /'
	exit 1
fi

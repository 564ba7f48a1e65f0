#!/bin/sh
# Line coverage of src after `make V=cov unit`, lowest first.
set -eu
cd "$(dirname "$0")/../build/obj/cov"
for data in $(find src -name '*.gcda' | sort); do
	gcov -n -o "$(dirname "$data")" "${data%.gcda}.o" 2>/dev/null |
		sed -n -e "/^File 'src.*\.c'/{s/^File '\(.*\)'/\1/;h}" -e '/^Lines executed/{s/Lines executed:\([0-9.]*\)% of \(.*\)/\1 \2/;G;s/\n/ /p;x;s/.*//;x}'
done | awk 'NF == 3 && !seen[$3]++ { printf "%6.1f%% of %5d  %s\n", $1, $2, $3 }' | sort -n

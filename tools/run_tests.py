#!/usr/bin/env python3
"""Run the test stages in order, each by its own make target, and add up what they counted.

    tools/run_tests.py [STAGE...]

Every prove run appends its counts to build/test/totals (tools/TapTotals.pm). A stage that could not
run, or that ran no test, counts as one failure. All stages run even when one fails. The last line is
"N passed, N failed" and the exit status is 0 only when nothing failed.
"""
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = os.path.join(ROOT, "build", "test")
TOTALS = os.path.join(OUT, "totals")

# Name, arguments of make, what it is. Cheap ones first.
STAGES = [
    ("unit", ["unit"], "unit tests, release build"),
    ("unit-asan", ["V=asan", "unit"], "unit tests, address and undefined behaviour sanitizers"),
    ("replay", ["replay"], "fuzz corpora through the release build"),
    ("agent", ["agent-test"], "the agent by itself"),
    ("behaviour", ["behaviour"], "what a user sees, as root and as an ordinary user"),
    ("escape", ["escape"], "attacks: without the wall they work, in a sandbox they do not"),
    ("lifecycle", ["kill-test"], "who cleans up: kills, timeouts, leaks"),
    ("vm", ["vm-test"], "cgroup v2, an older kernel, no Landlock: in a virtual machine"),
    ("lint", ["lint"], "layers, banned calls, clang-tidy, cppcheck, shellcheck, docs"),
    ("fuzz", ["fuzz"], "each fuzz target for some seconds"),
]


def counts():
    try:
        with open(TOTALS, encoding="ascii") as f:
            rows = [[int(x) for x in line.split()] for line in f]
    except FileNotFoundError:
        rows = []
    return [sum(r[i] for r in rows) for i in range(3)]


def run(args):
    """One stage: (passed, failed, skipped)."""
    if os.path.exists(TOTALS):
        os.unlink(TOTALS)
    rc = subprocess.call(["make", "--no-print-directory", "-j2", *args], cwd=ROOT,
                         env={**os.environ, "TAP_TOTALS": TOTALS})
    passed, failed, skipped = counts()
    if (rc != 0 or passed + failed + skipped == 0) and failed == 0:
        print(f"run_tests: make {' '.join(args)}: exit {rc}, {passed} tests: the stage failed", flush=True)
        failed = 1
    return passed, failed, skipped


def main(names):
    known = [s[0] for s in STAGES]
    for n in names:
        if n not in known:
            print(f"run_tests: no stage '{n}'; there are: {' '.join(known)}", file=sys.stderr)
            return 2
    os.makedirs(OUT, exist_ok=True)
    table = []
    for name, args, text in STAGES:
        if names and name not in names:
            continue
        print(f"\n=== {name}: {text}", flush=True)
        start = time.monotonic()
        table.append((name, *run(args), time.monotonic() - start))
    print(f"\n{'stage':<12}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}")
    for name, passed, failed, skipped, seconds in table:
        print(f"{name:<12}{passed:>8}{failed:>8}{skipped:>9}{seconds:>9.0f}")
    passed, failed = (sum(row[i] for row in table) for i in (1, 2))
    closing = f"{passed} passed, {failed} failed"
    with open(os.path.join(OUT, "closing"), "w", encoding="ascii") as f:
        f.write(closing + "\n")
    if not os.environ.get("BRIG_CI"):  # .ci/run prints it, after all that make may have to say
        print(closing, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

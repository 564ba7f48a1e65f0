#!/usr/bin/env python3
"""Run the test stages, each by its own make target, and add up what they counted.

    tools/run_tests.py [STAGE...]

There are two lanes. The first runs in order and is shown as it runs. The second holds what only computes:
at low priority, it uses the time the first spends waiting; what it printed is shown a stage at a time.
Everything both need is built before.

Every prove run appends its counts to build/test/totals-STAGE (tools/TapTotals.pm). A stage that could not
run, or that ran no test, counts as one failure. All stages run even when one fails. The last line is
"N passed, N failed" and the exit status is 0 only when nothing failed.
"""
import concurrent.futures
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = os.path.join(ROOT, "build", "test")

# Name, arguments of make, whether it is of the second lane, what it is. Cheap ones first.
STAGES = [
    ("unit", ["unit"], False, "unit tests, release build"),
    ("replay", ["replay"], False, "fuzz corpora through the release build"),
    ("agent", ["agent-test"], False, "the agent by itself"),
    ("behaviour", ["behaviour"], False, "what a user sees, as root and as an ordinary user"),
    ("escape", ["escape"], False, "attacks: without the wall they work, in a sandbox they do not"),
    ("lifecycle", ["kill-test"], False, "who cleans up: kills, timeouts, leaks"),
    ("api", ["api-test"], False, "brigd: raw requests, and the SDKs it is made for"),
    ("vm", ["vm-test"], False, "cgroup v2, an older kernel, no Landlock: in a virtual machine"),
    ("unit-asan", ["V=asan", "unit"], True, "unit tests, address and undefined behaviour sanitizers"),
    ("lint", ["lint"], True, "layers, banned calls, clang-tidy, cppcheck, shellcheck, docs"),
    ("fuzz", ["fuzz"], True, "each fuzz target for some seconds"),
]
MAKE = ["make", "--no-print-directory", "-j2"]
ASIDE = ["nice", "-n", "10"]


def counts(totals):
    try:
        with open(totals, encoding="ascii") as f:
            rows = [[int(x) for x in line.split()] for line in f]
    except FileNotFoundError:
        rows = []
    return [sum(r[i] for r in rows) for i in range(3)]


def run(name, args, log=None):
    """One stage, its output to the file log or shown: (name, passed, failed, skipped, seconds)."""
    start, totals = time.monotonic(), os.path.join(OUT, f"totals-{name}")
    if os.path.exists(totals):
        os.unlink(totals)
    rc = subprocess.call([*(ASIDE if log else []), *MAKE, *args], cwd=ROOT, stdout=log, stderr=log,
                         env={**os.environ, "TAP_TOTALS": totals})
    passed, failed, skipped = counts(totals)
    if (rc != 0 or passed + failed + skipped == 0) and failed == 0:
        print(f"run_tests: make {' '.join(args)}: exit {rc}, {passed} tests: the stage failed", file=log,
              flush=True)
        failed = 1
    return name, passed, failed, skipped, time.monotonic() - start


def title(name, text):
    print(f"\n=== {name}: {text}", flush=True)


def run_aside(name, args):
    with open(os.path.join(OUT, f"log-{name}"), "w+", encoding="utf-8", errors="replace") as log:
        return run(name, args, log)


def show_aside(name, text):
    title(name, text)
    with open(os.path.join(OUT, f"log-{name}"), encoding="utf-8", errors="replace") as log:
        sys.stdout.writelines(log)
    sys.stdout.flush()


def run_all(stages):
    first = [s for s in stages if not s[2]]
    table, second = [], [s for s in stages if s[2]]
    if second and first and subprocess.call([*MAKE, "built"], cwd=ROOT) != 0:
        return [("build", 0, 1, 0, 0.0)]
    with concurrent.futures.ThreadPoolExecutor(1) as lane:
        aside = [(lane.submit(run_aside, s[0], s[1]), s) for s in second]
        for name, args, _, text in first:
            title(name, text)
            table.append(run(name, args))
            while aside and aside[0][0].done():
                done, s = aside.pop(0)
                show_aside(s[0], s[3])
                table.append(done.result())
        for done, s in aside:
            row = done.result()
            show_aside(s[0], s[3])
            table.append(row)
    return table


def main(names):
    known = [s[0] for s in STAGES]
    for n in names:
        if n not in known:
            print(f"run_tests: no stage '{n}'; there are: {' '.join(known)}", file=sys.stderr)
            return 2
    os.makedirs(OUT, exist_ok=True)
    table = run_all([s for s in STAGES if not names or s[0] in names])
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

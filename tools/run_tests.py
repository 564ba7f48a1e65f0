#!/usr/bin/env python3
"""Run the test stages, each by its own make target, and add up what they counted.

    tools/run_tests.py [STAGE...]

There are three lanes, each in order, since none keeps two processors busy: the first is shown as it runs and waits
a lot, the virtual machine is one more, and what only computes fills what both leave, at low priority. What those two
printed is shown a stage at a time. Everything that more than one needs is built before.

Every prove run appends its counts to build/test/totals-STAGE (tools/TapTotals.pm). A stage that could not
run, or that ran no test, counts as one failure. All stages run even when one fails. The last line is
"N passed, N failed" and the exit status is 0 only when nothing failed.
"""
import concurrent.futures
import contextlib
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = os.path.join(ROOT, "build", "test")

# The nice value of each lane. The machine is slow enough by itself that its own time limits would not stand a low one.
LANES = {"shown": 0, "machine": 0, "computing": 10}
# Name, arguments of make, lane, what it is. Cheap ones first.
STAGES = [
    ("unit", ["unit"], "shown", "unit tests, release build"),
    ("replay", ["replay"], "shown", "fuzz corpora through the release build"),
    ("agent", ["agent-test"], "shown", "the agent by itself"),
    ("behaviour", ["behaviour"], "shown", "what a user sees, as root and as an ordinary user"),
    ("escape", ["escape"], "shown", "attacks: without the wall they work, in a sandbox they do not"),
    ("lifecycle", ["kill-test"], "shown", "who cleans up: kills, timeouts, leaks"),
    ("api", ["api-test"], "shown", "brigd: raw requests, and the SDKs it is made for"),
    ("vm", ["vm-test"], "machine", "cgroup v2, an older kernel, no Landlock: in a virtual machine"),
    ("unit-asan", ["V=asan", "unit"], "computing", "unit tests, address and undefined behaviour sanitizers"),
    ("lint", ["lint"], "computing", "layers, banned calls, clang-tidy, cppcheck, shellcheck, docs"),
    ("fuzz", ["fuzz"], "computing", "each fuzz target for some seconds"),
]
MAKE = ["make", "--no-print-directory", "-j2"]


def counts(totals):
    try:
        with open(totals, encoding="ascii") as f:
            rows = [[int(x) for x in line.split()] for line in f]
    except FileNotFoundError:
        rows = []
    return [sum(r[i] for r in rows) for i in range(3)]


def run(name, args, nice=0, log=None):
    """One stage, its output to the file log or shown: (name, passed, failed, skipped, seconds)."""
    start, totals = time.monotonic(), os.path.join(OUT, f"totals-{name}")
    if os.path.exists(totals):
        os.unlink(totals)
    rc = subprocess.call(["nice", "-n", str(nice), *MAKE, *args], cwd=ROOT, stdout=log, stderr=log,
                         env={**os.environ, "TAP_TOTALS": totals})
    passed, failed, skipped = counts(totals)
    if (rc != 0 or passed + failed + skipped == 0) and failed == 0:
        print(f"run_tests: make {' '.join(args)}: exit {rc}, {passed} tests: the stage failed", file=log,
              flush=True)
        failed = 1
    return name, passed, failed, skipped, time.monotonic() - start


def title(name, text):
    print(f"\n=== {name}: {text}", flush=True)


def run_aside(name, args, lane):
    with open(os.path.join(OUT, f"log-{name}"), "w+", encoding="utf-8", errors="replace") as log:
        return run(name, args, LANES[lane], log)


def show_aside(done, name, text):
    """A stage that was run aside, once it has ended; its row."""
    row = done.result()
    title(name, text)
    with open(os.path.join(OUT, f"log-{name}"), encoding="utf-8", errors="replace") as log:
        sys.stdout.writelines(log)
    sys.stdout.flush()
    return row


def run_all(stages):
    lanes = {s[2] for s in stages}
    if len(lanes) > 1 and subprocess.call([*MAKE, "built"], cwd=ROOT) != 0:
        return [("build", 0, 1, 0, 0.0)]
    table, aside = [], []
    with contextlib.ExitStack() as stack:
        pools = {lane: stack.enter_context(concurrent.futures.ThreadPoolExecutor(1)) for lane in lanes - {"shown"}}
        for name, args, lane, text in stages:
            if lane != "shown":
                aside.append((pools[lane].submit(run_aside, name, args, lane), name, text))
        for name, args, lane, text in stages:
            if lane == "shown":
                title(name, text)
                table.append(run(name, args))
                table += [show_aside(*a) for a in aside if a[0].done()]
                aside = [a for a in aside if a[1] not in [row[0] for row in table]]
        table += [show_aside(*a) for a in aside]
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

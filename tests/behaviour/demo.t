#!/usr/bin/python3
"""The tour of `make demo` tells the truth: it runs as told, and every attempt of the untrusted program
meets the wall it should. What only cgroups limit is left out where the caller has none."""
import os
import re
import shutil
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import ROOT, case, done, eq, main, ok  # noqa: E402

# Worked as it should: a daemon may start, it just does not outlive the sandbox.
ALWAYS = {"leave a daemon behind"}
NEEDS_CGROUPS = {"fork without end", "eat all memory"}


@case
def tour(m):
    top = m.mkdir("tour")
    shutil.copytree(os.path.join(ROOT, "examples"), os.path.join(top, "examples"))
    m.give_tree(top)
    r = done(m.exec([os.path.join(top, "examples", "tour.sh")], timeout=120,
                    env={"BRIG": m.brig_path, "TMPDIR": m.dir}))
    text = r.out.decode()
    allowed = set(re.findall(r"^ +allowed  (.*?)  ", text, re.M))
    blocked = set(re.findall(r"^ +BLOCKED  (.*?)  ", text, re.M))
    may = ALWAYS if m.name == "root" else ALWAYS | NEEDS_CGROUPS
    ok(allowed <= may, lambda: f"allowed {sorted(allowed - may)}:\n{text}")
    ok(len(blocked) >= 26, lambda: f"only {len(blocked)} attempts were made and blocked:\n{text}")
    ok("swordfish" not in text, "the caller's secret is in the output")
    ok("Vienna          16084.00" in text, lambda: f"the job was not done:\n{text}")
    ok("+    return math.pi * r * r" in text, lambda: f"no patch:\n{text}")


@case
def no_attempt_outside_a_sandbox(m):
    here = m.mkdir("outside")
    for name in ("untrusted.py", "sales.csv"):
        shutil.copy(os.path.join(ROOT, "examples", name), here)
    m.give_tree(here)
    r = m.exec(["/usr/bin/python3", "untrusted.py"], cwd=here)
    eq(r.rc, 1, repr(r))
    ok(b"BLOCKED" not in r.out and b"allowed" not in r.out, repr(r))


sys.exit(main())

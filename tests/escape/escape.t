#!/usr/bin/python3
"""Every attack of this folder: without the wall it works, in a sandbox it does not.

As root it runs inside as the image's user, as uid 0, and as uid 0 with --root-caps files; as an ordinary
user as that user. Controls run as an ordinary user's process, never as root of this machine. Results go to
build/escape.json. Attacks whose control is `guest` have theirs in tests/vm.
"""
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lib"), HERE]
import brigtest  # noqa: E402
from brigtest import TIER, case, eq, main, ok  # noqa: E402
import escapelib  # noqa: E402

ATTACKS = {n: a for n, a in escapelib.attacks().items() if not a.tiers or TIER in a.tiers}
VARIANTS = {"root": [[], ["--user", "root"], ["--user", "root", "--root", "overlay", "--root-caps", "files"]], "user": [[]]}
ran = {"control": set(), "root": set(), "user": set()}


def ready(m):
    if not getattr(m, "escape", False):
        escapelib.provide(m.bin)
        for name in ("brig", "brig-init"):  # the caller's own files: only a wall keeps the attack from writing them
            m.give(os.path.join(m.bin, name))
        m.escape = True


def staged(m, argv):
    r = m.exec(argv, timeout=120, env={"BRIG_ATTACKS": m.bin})
    eq(r.rc, 0, f"the stage: {r!r}")
    return escapelib.Report(r.out)


def inside(a):
    def run(m):
        ready(m)
        tried, bad = set(), []
        for options in VARIANTS[m.name][:1 if a.once else None]:
            r = escapelib.settled(a, lambda o=options: staged(m, escapelib.inside_argv(a, m.bin, m.run_argv(), o)), True)
            found = escapelib.judge_inside(a, r, options)
            bad += [f"{' '.join(options) or 'default'}: {x}" for x in found]
            if found:
                bad.append(repr(r))
            tried |= set(r.refused) | set(r.got)
        ran[m.name].add(a.name)
        escapelib.record(a.name, m.name, result="broken" if bad else "held", tried=sorted(tried))
        ok(not bad, "\n".join(bad))
    return run


def control(a):
    def run(m):
        ready(m)
        if a.control == "ns":
            ok(escapelib.can_make_namespaces() or os.geteuid() == 0, "no user namespaces here for the control")
        r = escapelib.settled(a, lambda: staged(m, escapelib.control_argv(a, m.bin)), False)
        bad = escapelib.judge_control(a, r)
        if not escapelib.judge_inside(a, r, []):
            bad.append("the judge of the inside would not have seen this")
        ran["control"].add(a.name)
        escapelib.record(a.name, "control", result="failed" if bad else "works", where=a.control, got=sorted(r.got))
        ok(not bad, "\n".join([*bad, repr(r)]))
    return run


for _name, _a in ATTACKS.items():
    if _a.control != "guest":
        brigtest.CASES.append((control(_a), ("user",), f"control_{_name}"))
    brigtest.CASES.append((inside(_a), tuple(_a.callers), _name))


@case
def every_attack_was_run(m):
    """The files against what ran and what was recorded."""
    if os.environ.get("BRIG_CASES"):
        return
    want = {n for n, a in ATTACKS.items() if m.name in a.callers}
    eq(sorted(want - ran[m.name]), [], "attacks that were not run inside")
    if m.name == "user":
        eq(sorted(n for n, a in ATTACKS.items() if a.control != "guest" and n not in ran["control"]), [],
           "attacks whose control was not run")
    results = escapelib.load()["attacks"]
    eq(sorted(set(ATTACKS) - set(results)), [], "attacks without a result")
    if m.name == brigtest.modes()[-1]:  # an attempt no control has shown to work proves nothing inside
        for name, a in ATTACKS.items():
            r = results[name]
            if r.get("control", {}).get("where") != a.control:
                continue  # a guest's that has not run yet
            known = set(r["control"]["got"]) | set(a.no_control)
            tried = {k for column in ("root", "user") for k in r.get(column, {}).get("tried", [])}
            ok(tried <= known, f"{name}: attempts without a control: {sorted(tried - known)}")
    guest = sorted(n for n, a in ATTACKS.items() if a.control == "guest")
    print(f"# {len(guest)} controls are the virtual machine's: {' '.join(guest)}")


sys.exit(main())

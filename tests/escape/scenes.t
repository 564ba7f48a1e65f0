#!/usr/bin/python3
"""Every attack of tests/escape/scenes: what it takes more than a program in a sandbox for (escapelib.py)."""
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lib"), HERE]
import brigtest  # noqa: E402
from brigtest import TIER, case, eq, main, ok  # noqa: E402
import escapelib  # noqa: E402
from scenelib import Watched  # noqa: E402

SCENES = {n: s for n, s in escapelib.scenes().items() if not s.tiers or TIER in s.tiers}
ran = {"control": {}, "root": {}, "user": {}}


def control(s, code):
    def run(m):
        seen = code.control(m)
        ran["control"][s.name] = set(seen)
        bad = [f"{k}: no damage without the wall either" for k, what in seen.items() if not what]
        escapelib.record(s.name, "control", result="failed" if bad or not seen else "works", where="plain", got=sorted(seen))
        ok(seen and not bad, "\n".join(bad) or "it tried nothing")
    return run


def inside(s, code):
    def run(m):
        with Watched(m) as w:
            seen = code.inside(m)
        ran[m.name][s.name] = set(seen)
        bad = [f"{k}: {what}" for k, what in seen.items() if what] + ([f"the canary: {w.seen}"] if w.seen else [])
        escapelib.record(s.name, m.name, result="broken" if bad or not seen else "held", tried=sorted(seen))
        ok(seen and not bad, "\n".join(bad) or "it tried nothing")
    return run


for _s in SCENES.values():
    _code = _s.module()
    brigtest.CASES.append((control(_s, _code), (_s.callers[-1],), f"control_{_s.name}"))
    brigtest.CASES.append((inside(_s, _code), tuple(_s.callers), _s.name))


@case
def every_scene_was_run(m):
    if os.environ.get("BRIG_CASES"):
        return
    eq(sorted(n for n, s in SCENES.items() if m.name in s.callers and n not in ran[m.name]), [], "not run inside")
    if m.name != brigtest.modes()[-1]:
        return
    for n, s in SCENES.items():
        if s.callers[-1] not in brigtest.modes():
            continue
        ok(n in ran["control"], f"{n}: its control was not run")
        for mode in ("root", "user"):
            tried = ran[mode].get(n)
            ok(tried is None or tried == ran["control"][n], f"{n}: {tried} inside as {mode}, {ran['control'][n]} in its control")


sys.exit(main())

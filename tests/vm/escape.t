#!/usr/bin/python3
"""The escape suite's controls that need a machine of their own: real root, settings of the whole kernel.

Boots the guest for tests/vm/guest/escape.py, passes its TAP through and puts the controls' results where the rest of the
suite's are, in build/escape.json. Without the guest these attacks would not have been run, so that is a failure.
"""
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "escape"))
import escapelib  # noqa: E402

os.chdir(escapelib.ROOT)
only, tier = os.environ.get("BRIG_CASES", ""), os.environ.get("BRIG_TIER") or "container"
guest = subprocess.Popen([os.path.join(HERE, "boot.sh"), "", "env", f"BRIG_CASES={only}", f"BRIG_TIER={tier}", "python3",
                          "tests/vm/guest/escape.py"], stdout=subprocess.PIPE, text=True,
                         env={**os.environ, "BRIG_MUST_RUN": "1"})
seen, plan = set(), None
for line in guest.stdout:
    words = line.split(" ", 4)
    if line.startswith("1.."):
        plan = int(line[3:])
        continue
    print(line, end="", flush=True)
    if words[:2] == ["#", "escape"] and len(words) == 5:
        seen.add(words[2])
        escapelib.record(words[2], words[3], **json.loads(words[4]))
rc = guest.wait()
if plan is not None:  # without one the guest did not come to its end, which fails by itself
    want = {n for n, a in escapelib.attacks().items() if a.control == "guest" and (not a.tiers or tier in a.tiers)}
    missing = sorted(want - seen) if not only else []
    print(f"{'not ok' if missing else 'ok'} {plan + 1} - every control of the guest was run")
    for name in missing:
        print(f"# not run: {name}")
    print(f"1..{plan + 1}")
    rc = rc or bool(missing)
sys.exit(rc)

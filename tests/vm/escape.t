#!/usr/bin/python3
"""The escape suite's controls that need a machine of their own: real root, settings of the whole kernel.

Boots the guest for tests/vm/guest/escape.py, passes its TAP through and puts the controls' results where the rest of the suite's are, in build/escape.json.
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
guest = subprocess.Popen([os.path.join(HERE, "boot.sh"), "", "env",
                          f"BRIG_CASES={os.environ.get('BRIG_CASES', '')}", "python3", "tests/vm/guest/escape.py"],
                         stdout=subprocess.PIPE, text=True)
for line in guest.stdout:
    print(line, end="", flush=True)
    words = line.split(" ", 3)
    if words[:2] == ["#", "escape"] and len(words) == 4:
        escapelib.record(words[2], "control", **json.loads(words[3]))
sys.exit(guest.wait())

#!/usr/bin/python3
"""In the guest: the attacks whose control would change a machine, without the wall as root, and in a sandbox of root and
of an ordinary user to whom systemd delegated a cgroup v2 tree; by that user also the ones that limits alone hold.

Each control's result goes out as a comment `# escape NAME COLUMN JSON`, which tests/vm/escape.t records: nothing here can
write to the host. The scene is the same tests/escape/stage.py as everywhere.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path[:0] = ["/brig/tests/escape", os.path.dirname(os.path.abspath(__file__))]
import escapelib  # noqa: E402
from vmlib import DELEGATED  # noqa: E402

TIER = os.environ.get("BRIG_TIER") or "container"
BRIG = ["/brig/build/brig", "run", "--tier", TIER]
SECONDS = 240  # emulated
# Their controls are the machine's own; as an ordinary user they need limits, which there are only where cgroups are delegated.
LIMITED = ("exhaust_memory", "exhaust_processes")


def staged(argv, folder, caller=None):
    env = {"BRIG_ATTACKS": folder, "TMPDIR": "/tmp" if caller else folder}
    argv = ["env", *(f"{k}={v}" for k, v in env.items()), *argv]
    if caller:
        r = caller.exec(*argv, timeout=SECONDS)
        rc, out, err = r.rc, r.out, r.err
    else:
        r = subprocess.run(argv, check=False, capture_output=True, timeout=SECONDS, stdin=subprocess.DEVNULL)
        rc, out, err = r.returncode, r.stdout, r.stderr
    if rc != 0:
        raise AssertionError(f"the stage: exit {rc} {err[-500:]!r}")
    return escapelib.Report(out)


def attempts(a, folder):
    """(name, what is wrong) of the control and of the sandboxes."""
    known = None
    if a.control == "guest":
        r = escapelib.settled(a, lambda: staged(escapelib.control_argv(a, folder), folder), False)
        bad = escapelib.judge_control(a, r)
        known = sorted(r.got)
        print(f"# escape {a.name} control "
              + json.dumps({"result": "failed" if bad else "works", "where": "guest", "got": known}))
        yield f"control_{a.name}", bad + ([repr(r)] if bad else [])
        yield a.name, inside(a, folder, known, None)
    if a.control != "guest" or "user" in a.callers:
        yield f"{a.name} as a delegated user", inside(a, folder, known, DELEGATED)


def inside(a, folder, known, caller):
    r = escapelib.settled(a, lambda: staged(escapelib.inside_argv(a, folder, BRIG, []), folder, caller), True)
    bad = escapelib.judge_inside(a, r, [])
    if known is not None:
        bad += [f"{k} was not tried by the control" for k in r.refused if k not in known and k not in a.no_control]
    return bad + ([repr(r)] if bad else [])


def main():
    only = os.environ.get("BRIG_CASES", "")
    folder = tempfile.mkdtemp(prefix="escape-", dir="/tmp")
    os.chmod(folder, 0o755)
    escapelib.provide(folder)
    nr = failed = 0
    for a in escapelib.attacks().values():
        if (a.control != "guest" and a.name not in LIMITED) or (a.tiers and TIER not in a.tiers) or not re.search(only, a.name):
            continue
        results = []
        try:
            for result in attempts(a, folder):
                results.append(result)
        except (AssertionError, ValueError, subprocess.TimeoutExpired) as e:
            results.append((a.name, [f"{type(e).__name__}: {e}"]))
        for name, bad in results:
            nr += 1
            failed += bool(bad)
            print(f"{'not ok' if bad else 'ok'} {nr} - guest: {name}", flush=True)
            for line in bad:
                print(f"# {line}")
    print(f"1..{nr}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

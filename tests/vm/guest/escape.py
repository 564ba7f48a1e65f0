#!/usr/bin/python3
"""In the guest, as root: the attacks whose control would change a machine, without the wall and in a sandbox.

Each result goes out as a comment `# escape NAME COLUMN JSON`, which tests/vm/escape.t records: nothing here can
write to the host. The scene is the same tests/escape/stage.py as everywhere.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, "/brig/tests/escape")
import escapelib  # noqa: E402

BRIG = ["/brig/build/brig", "run", "--tier", "container"]
SECONDS = 120  # emulated


def staged(argv, folder):
    r = subprocess.run(argv, check=False, capture_output=True, timeout=SECONDS, stdin=subprocess.DEVNULL,
                       env={**os.environ, "BRIG_ATTACKS": folder, "TMPDIR": folder})
    if r.returncode != 0:
        raise AssertionError(f"the stage: exit {r.returncode} {r.stderr[-500:]!r}")
    return escapelib.Report(r.stdout)


def attempt(a, folder):
    """(name, what is wrong) of the control and of the sandbox."""
    r = staged(escapelib.control_argv(a, folder), folder)
    bad = escapelib.judge_control(a, r)
    got = sorted(r.got)
    print(f"# escape {a.name} " + json.dumps({"result": "failed" if bad else "works", "where": "guest", "got": got}))
    yield f"control_{a.name}", bad + ([repr(r)] if bad else [])
    r = staged(escapelib.inside_argv(a, folder, BRIG, []), folder)
    bad = escapelib.judge_inside(a, r, [])
    bad += [f"{k} was not tried by the control" for k in r.refused if k not in got and k not in a.no_control]
    yield a.name, bad + ([repr(r)] if bad else [])


def main():
    only = os.environ.get("BRIG_CASES", "")
    folder = tempfile.mkdtemp(prefix="escape-", dir="/tmp")
    os.chmod(folder, 0o755)
    escapelib.provide(folder)
    nr = failed = 0
    for a in escapelib.attacks().values():
        if a.control != "guest" or not re.search(only, a.name):
            continue
        try:
            results = list(attempt(a, folder))
        except (AssertionError, ValueError, subprocess.TimeoutExpired) as e:
            results = [(a.name, [f"{type(e).__name__}: {e}"])]
        for name, bad in results:
            nr += 1
            failed += bool(bad)
            print(f"{'not ok' if bad else 'ok'} {nr} - guest: {name}")
            for line in bad:
                print(f"# {line}")
    print(f"1..{nr}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""
Takes all processors.

group: exhaustion
tries: take more of the processors than --cpus gives, by many processes that never wait; a sandbox beside it goes on
only: root
"""
import json
import subprocess

from brigtest import done, eq
from scenelib import PY

HOGS = 12
BOUND = 0.2  # processors: twice what --cpus gives, for its periods at both ends
SCRIPT = (f"import os, time\nprint('up', flush=True)\nfor _ in range({HOGS}):\n"
          "  if os.fork() == 0:\n    os.setsid()  # each a group of its own to the scheduler\n    break\nelse:\n  me = True\n"
          "end = time.monotonic() + 1\nwhile time.monotonic() < end: pass\n"
          f"if 'me' in dir(): [os.wait() for _ in range({HOGS})]\n")


def part(m, *opts):
    """Of one processor, in the time it took; and the rest of the machine goes on meanwhile."""
    report = m.path("report")
    p = m.popen(m.run_argv(*opts, "--result-file", report, "--", PY, "-c", SCRIPT), stdout=subprocess.PIPE)
    eq(p.stdout.readline(), b"up\n", "the hogs")
    done(m.run("--", "echo", "beside"), out=b"beside\n")
    eq(p.wait(60), 0, "the hogs")
    p.stdout.close()
    with open(report, encoding="ascii") as f:
        j = json.load(f)
    return j["cpu_ms"] / j["wall_ms"]


def control(m):
    """In a sandbox too, which gives nobody a limit: nothing else would keep its memory and processes."""
    n = part(m)
    return {"hogs": f"{n:.2f} processors" if n > BOUND else ""}


def inside(m):
    n = part(m, "--cpus", "0.1")
    return {"hogs": f"{n:.2f} processors" if n > BOUND else ""}

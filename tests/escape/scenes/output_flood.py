"""
Writes more than anybody wants to keep.

group: exhaustion
tries: fill the caller's memory by output: kept for --json, without a line's end, through the framed channels
  and to a reader that does not read; a sandbox beside it goes on
"""
import json
import subprocess

from brigtest import done, eq, goes_on, ok, until
import reap
from scenelib import PY

FLOOD = 80  # MiB
BOUND = 72  # MiB brig may have resident: 16 MiB of a stream are kept for --json, and written as JSON
SCRIPT = f"import os,sys\nb = b'x' * 65536\nfor fd in map(int, sys.argv[1:]):\n  for _ in range({FLOOD * 16}): os.write(fd, b)\n"
MEASURE = ("import resource,subprocess,sys\nrc = subprocess.call(sys.argv[2:])\n"
           "open(sys.argv[1],'w').write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))\nsys.exit(rc)\n")
COLLECT = ("import subprocess,sys\np = subprocess.run(sys.argv[1:], capture_output=True)\nprint(len(p.stdout) + len(p.stderr))\n")


def peak(m, argv, **kw):
    """Largest resident memory in MiB of argv or what it started, and its result."""
    memory = m.path("memory")
    goes_on()
    r = m.exec([PY, "-c", MEASURE, memory, *argv], timeout=200, **kw)
    with open(memory, encoding="ascii") as f:
        return int(f.read()) >> 10, r


def plan(m):
    """KEY: options of brig run, streams that are flooded, its environment."""
    return {"json": (["--json"], ["1"], {}), "framed": ([], ["1"], {"BRIG_STDIO": "framed"})}


def control(m):
    seen = {}
    for key, (_, streams, _) in plan(m).items():
        mib, r = peak(m, [PY, "-c", COLLECT, PY, "-c", SCRIPT, *streams])
        eq(r.rc, 0, repr(r))
        seen[key] = f"{mib} MiB" if mib > FLOOD else ""
    # A reader that does not read, and a relay that goes on reading for it.
    p = m.popen([PY, "-c", "import os,sys\nkeep = []\nwhile True:\n  b = os.read(0, 65536)\n  if not b: break\n  keep.append(b)\n"
                 "print(sum(map(len, keep)))"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    q = m.popen([PY, "-c", SCRIPT, "1"], stdout=p.stdin)
    p.stdin.close()
    eq(q.wait(60), 0, "the writer")
    seen["unread"] = "all of it was kept" if int(p.stdout.read()) == FLOOD << 20 else ""
    p.wait()
    p.stdout.close()
    return seen


def inside(m):
    seen = {}
    for key, (opts, streams, env) in plan(m).items():
        mib, r = peak(m, m.run_argv(*opts, "--memory", "96M", "--disk", "16M", "--", PY, "-c", SCRIPT, *streams), env=env)
        seen[key] = f"brig had {mib} MiB: {r.rc}" if mib > BOUND or r.rc != 0 else ""
        if opts:
            j = json.loads(r.out)
            ok(all(len(j[s]) <= 16 << 20 for s in ("stdout", "stderr")), "more than 16 MiB were kept")
    seen["unread"] = unread(m)
    return seen


def unread(m):
    """Until the pipe is full and the writer waits; meanwhile another sandbox works."""
    p = m.popen(m.run_argv("--", PY, "-c", f"import sys\nprint('up', flush=True)\nsys.argv = ['', '1']\n{SCRIPT}"), stdout=subprocess.PIPE)
    eq(p.stdout.readline(), b"up\n", "the writer")
    done(m.run("--", "echo", "beside"), out=b"beside\n")
    until(lambda: all(waits(x) for x in reap.below(p.pid)), 20, "nobody waits for the reader")
    rss = max(resident(x) for x in [p.pid, *reap.below(p.pid)])
    p.terminate()
    p.stdout.close()
    p.wait(20)
    return f"{rss} KiB" if rss > 16 << 10 else ""


def waits(pid):
    s = reap.stat_of(pid)
    return s is None or s[0] == "S"


def resident(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
            return max([int(x.split()[1]) for x in f if x.startswith("RssAnon:")], default=0)
    except OSError:
        return 0

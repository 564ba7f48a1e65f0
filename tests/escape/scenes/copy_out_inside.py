"""
Exchanges what is copied out, by a process that goes on inside while the agent walks and reads it.

group: copies
tries: have --out and --out-patch carry what is not in their folder: a folder or file exchanged with a link to files beside it,
  to the host's files by name and through /proc/1, with a pipe
"""
import os
import secrets

from brigtest import ok
from scenelib import PY, RACER, Outside, Race, RUNS, careless, ran, swapped

FOREVER = RACER.replace("os.getppid() != 1", "True")
# argv: kind, target, a file to make beside and its bytes. Leaves the racer behind.
INSIDE = """
import os, subprocess, sys
kind, target, secret, mark = sys.argv[1:5]
os.makedirs(os.path.dirname(secret), exist_ok=True)
open(secret, 'w').write(mark)
names = []
for i in range(4):
    a, b = f'p/a{i}', f'p/b{i}'
    if kind == 'file': open(a, 'w').write('honest')
    else:
        os.mkdir(a)
        open(a + '/canary', 'w').write('honest')
    os.mkfifo(b) if target == 'fifo' else os.symlink(target, b)
    names += [a, b]
racer = subprocess.Popen([sys.executable, '-c', sys.argv[5], *names], stdout=subprocess.PIPE, start_new_session=True,
                         stderr=subprocess.DEVNULL)
assert racer.stdout.readline() == b'up\\n'
"""


def plan(out):
    return {"folder": ("folder", "/tmp/beside"), "file": ("file", "/tmp/beside/canary"), "host": ("folder", out.dir),
            "proc": ("folder", f"/proc/1/root{out.dir}"), "pipe": ("file", "fifo")}


def control(m):
    out, seen = Outside(m), {}
    for key, (kind, target) in plan(out).items():
        if target == "fifo":
            src = m.mkdir("src")
            os.mkfifo(os.path.join(src, "f"))
            m.give_tree(src)
            seen[key] = "a reader waits for ever" if m.exec(["timeout", "0.3", "cat", os.path.join(src, "f")]).rc == 124 else ""
            continue
        src, dst = m.mkdir("src"), m.mkdir("dst")
        target = {"folder": out.dir, "file": out.file, "host": out.dir, "proc": f"/proc/self/root{out.dir}"}[key]
        with Race(m, swapped(m, src, kind, target)):
            seen[key] = careless(m, out, src, dst)
    return seen


def inside(m):
    out, seen = Outside(m), {}
    src = m.mkdir("p")
    with open(os.path.join(src, "old"), "w", encoding="ascii") as f:
        f.write("old\n")
    m.give_tree(src)
    for key, (kind, target) in plan(out).items():
        mark = "beside-" + secrets.token_hex(12)
        seen[key], good = "", 0
        for i in range(RUNS):
            dst, patch = m.path("dst"), m.path("patch")
            r = ran(m.run("--disk", "64M", "--file", f"{src}:p", "--out", f"p:{dst}", *(["--out-patch", patch] if i == 0 else []), "--",
                          PY, "-c", INSIDE, kind, target, "/tmp/beside/canary", mark, FOREVER, timeout=60), key)
            ok(b"Traceback" not in r.err, repr(r))
            good += r.rc == 0
            for p in [patch, *(os.path.join(d, n) for d, _, files in os.walk(dst) for n in files)]:
                if os.path.exists(p) and not os.path.islink(p):
                    with open(p, "rb") as f:
                        if {mark.encode(), out.mark.encode()} & set(f.read().replace(b"+", b"").split()):
                            seen[key] = f"{p} has bytes of another file"
        print(f"# {key}: {good} of {RUNS} copies went through, the others were refused")
    return seen

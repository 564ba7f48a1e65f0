"""
Exchanges what is copied in while brig walks and reads it.

group: copies
tries: have --file read outside of its source: a folder or file exchanged with a link to the outside, directly and through
  /proc, with a pipe that never ends, a file that grows and is cut while it is read
"""
import os

from brigtest import eq, ok
from scenelib import PY, Outside, Race, RUNS, careless, ran, swapped

CHANGE = """
import os, sys
print('up', flush=True)
f = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
while os.getppid() != 1:
    os.truncate(f, 1)
    for _ in range(64):
        os.write(f, b'x' * 65536)
"""
NOTICE = """
import os, sys
while True:
    said = os.stat(sys.argv[1]).st_size
    with open(sys.argv[1], 'rb') as f:
        if len(f.read()) != said: break
"""


def links(out):
    """KEY: (what is exchanged, with what)."""
    return {"folder": ("folder", out.dir), "file": ("file", out.file), "proc": ("folder", f"/proc/self/root{out.dir}")}


def control(m):
    seen = {}
    out = Outside(m)
    for key, (kind, target) in links(out).items():
        src, dst = m.mkdir("src"), m.mkdir("dst")
        with Race(m, swapped(m, src, kind, target)):
            seen[key] = careless(m, out, src, dst)
    eq(out.changed(), "", "the canary")
    src = m.mkdir("src")
    os.mkfifo(os.path.join(src, "f"))
    m.give_tree(src)
    r = m.exec(["timeout", "0.3", "cat", os.path.join(src, "f")])
    seen["pipe"] = "a reader waits for ever" if r.rc == 124 else ""
    f = m.put("f", b"")
    with Race(m, [(f, "")], CHANGE):
        seen["changing"] = "other than was said came" if m.exec([PY, "-c", NOTICE, f]).rc == 0 else ""
    return seen


def copied(m, out, src):
    """What of the outside came in, over some runs."""
    good = 0
    for _ in range(RUNS):
        r = ran(m.run("--disk", "64M", "--file", f"{src}:p", "--", "sh", "-c",
                      f"grep -rqs {out.mark} p && echo LEAK; find p -type p -o -type b -o -type c; echo end", timeout=30), "--file")
        good += r.out == b"end\n"
        if r.rc == 0 and r.out != b"end\n":
            return repr(r)
    print(f"# {good} of {RUNS} copies went through, the others were refused")
    return ""


def inside(m):
    seen = {}
    out = Outside(m)
    for key, (kind, target) in {**links(out), "pipe": ("file", "fifo")}.items():
        src = m.mkdir("src")
        with Race(m, swapped(m, src, kind, target)):
            seen[key] = copied(m, out, src)
    f = m.put("f", b"x")
    with Race(m, [(f, "")], CHANGE):
        for _ in range(RUNS):
            r = ran(m.run("--disk", "2M", "--file", f"{f}:f", "--", "stat", "-c", "%s", "f", timeout=30), "changing")
            ok(r.rc == 125 or r.out.strip().isdigit(), repr(r))
            if r.rc == 0 and int(r.out) > 2 << 20:
                seen["changing"] = f"more than the disk limit came in: {r!r}"
    return {"changing": "", **seen, **({"outside": out.changed()} if out.changed() else {})}

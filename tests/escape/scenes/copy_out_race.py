"""
Exchanges folders and files of the destination while brig writes there.

group: copies
tries: have --out write outside of its destination: a folder or file in it exchanged with a link to the outside, directly and
  through /proc, and links that are there from the start
"""
import os

from brigtest import eq
from scenelib import PAIRS, Outside, Race, RUNS, careless, ran, swapped

# What is copied out: into each name that is exchanged, a folder with a file or a file.
MAKE = {"folder": "for i in $(seq 0 {n}); do mkdir -p p/a$i; for f in 1 2 3 4; do echo x > p/a$i/$f; done; done",
        "file": "mkdir p; for i in $(seq 0 {n}); do echo x > p/a$i; done"}


def plan(out):
    return {"folder": ("folder", out.dir), "file": ("file", out.file), "proc": ("folder", f"/proc/self/root{out.dir}")}


def control(m):
    seen = {}
    for key in plan(Outside(m)):
        out = Outside(m)
        kind, target = plan(out)[key]
        src, dst = m.mkdir("src"), m.mkdir("dst")
        m.exec(["sh", "-c", "cd $0 && " + MAKE[kind].format(n=PAIRS - 1), src])
        with Race(m, swapped(m, dst, kind, target)):
            seen[key] = careless(m, out, os.path.join(src, "p"), dst)
    out, dst = Outside(m), m.mkdir("dst")
    os.symlink(out.dir, os.path.join(dst, "a0"))
    m.exec(["sh", "-c", "mkdir -p $0/a0; echo x > $0/a0/1", dst])
    seen["waiting"] = out.changed()
    return seen


def copied(m, out, dst, kind):
    good = 0
    for _ in range(RUNS):
        r = ran(m.sh(MAKE[kind].format(n=PAIRS - 1), "--disk", "64M", "--out", f"p:{dst}", timeout=30), "--out")
        good += r.rc == 0
        if out.changed():
            return f"{out.changed()} {r!r}"
    print(f"# {good} of {RUNS} copies went through, the others were refused")
    return ""


def inside(m):
    seen = {}
    out = Outside(m)
    for key, (kind, target) in plan(out).items():
        dst = m.mkdir("dst")
        with Race(m, swapped(m, dst, kind, target)):
            seen[key] = copied(m, out, dst, kind)
    dst = m.mkdir("dst")
    for i in range(PAIRS):
        os.symlink(out.dir, os.path.join(dst, f"a{i}"))
    m.give_tree(dst)
    seen["waiting"] = copied(m, out, dst, "folder")
    eq(sorted(os.listdir(dst)), [f"a{i}" for i in range(PAIRS)], "the destination")
    return seen

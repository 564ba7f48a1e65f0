#!/usr/bin/env python3
"""File requests, pack streams and watching, on a tmpfs of the sandbox's own."""
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from agentlib import *  # noqa: E402,F403

DIR, FILE, LINK = 1, 2, 3


def agent():
    return Agent(setup="mount -t tmpfs -o size=64m tmpfs /mnt; ")


def do(a, kind, path, data=None, **more):
    s = a.open(kind, path=path, **more)
    if data is not None:
        s.send(data)
        s.end()
    s.wait()
    return s


def info(a, path, **more):
    s = do(a, STAT, path, **more)
    return records(s.out[OUT])[0] if s.result["how"] == DONE else s.result["errno"]


def basics(t):
    with agent() as a:
        data = os.urandom(700_000)
        s = do(a, WRITE, "/mnt/a/b/f", data, flags=PARENTS, mode=0o640)
        t.eq(s.result["how"], DONE, "write with parents")
        s = do(a, READ, "/mnt/a/b/f")
        t.eq((s.out[OUT] == data, s.result["how"]), (True, DONE), "read it back")
        s = do(a, READ, "/mnt/a/b/f", offset=1000, length=10)
        t.eq(s.out[OUT], data[1000:1010], "a range")
        st = info(a, "/mnt/a/b/f")
        t.eq((st["type"], st["size"], st["mode"], st["uid"], st["owner"]), (8, 700_000, 0o640, 0, b"root"), "stat")
        do(a, WRITE, "/mnt/a/b/f", b"new")
        t.eq((info(a, "/mnt/a/b/f")["mode"], info(a, "/mnt/a/b/f")["size"]), (0o640, 3), "replacing keeps the mode")
        do(a, WRITE, "/mnt/a/b/f", b"+more", flags=APPEND)
        t.eq(do(a, READ, "/mnt/a/b/f").out[OUT], b"new+more", "append")
        t.eq(info(a, "/mnt/none"), 2, "stat of nothing")
        t.eq(do(a, READ, "/mnt/a").result["errno"], 21, "read of a folder")
        t.eq(do(a, READ, "/dev/zero").result["errno"], 22, "read of a device")
        t.eq(do(a, WRITE, "/mnt/a", b"x").result["errno"], 21, "write over a folder")
        t.eq(do(a, WRITE, "/dev/null", b"x").result["errno"], 22, "write to a device")
        t.eq(do(a, WRITE, "/mnt/no/x", b"x").result["errno"], 2, "write without a parent")
        t.eq(do(a, WRITE, "/mnt/" + "n" * 256, b"x").result["errno"], 36, "256-byte name")
        t.eq(do(a, WRITE, "/mnt/" + "n" * 255, b"x").result["how"], DONE, "255-byte name")
        t.eq(do(a, STAT, "relative").result["errno"], 22, "relative path")
        a.sh("ln -s b/f /mnt/a/l; ln -s /mnt/a/new /mnt/d; ln -s loop /mnt/loop; mkfifo /mnt/fifo")
        do(a, WRITE, "/mnt/a/l", b"through")
        t.eq((do(a, READ, "/mnt/a/b/f").out[OUT], info(a, "/mnt/a/l", flags=NOFOLLOW)["target"]), (b"through", b"b/f"),
             "a link is written through and stays")
        do(a, WRITE, "/mnt/d", b"dangling")
        t.eq(do(a, READ, "/mnt/a/new").out[OUT], b"dangling", "a dangling link too")
        t.eq(do(a, WRITE, "/mnt/loop", b"x").result["errno"], 40, "a loop of links")
        t.eq(do(a, READ, "/mnt/fifo").result["errno"], 22, "a fifo does not block")
        names = {r["name"]: r for r in records(do(a, LIST, "/mnt/a", depth=2).out[OUT])}
        t.eq(sorted(names), [b"b", b"b/f", b"l", b"new"], "list two levels")
        t.eq(len(records(do(a, LIST, "/mnt/a").out[OUT])), 3, "list one level")
        t.eq(do(a, LIST, "/mnt/a/new").result["errno"], 20, "list of a file")
        t.eq(do(a, MKDIR, "/mnt/x/y/z", flags=PARENTS, mode=0o700).result["how"], DONE, "mkdir with parents")
        t.eq(do(a, MKDIR, "/mnt/x/y/z", flags=PARENTS).result["how"], DONE, "and again")
        t.eq(do(a, MKDIR, "/mnt/x/y/z").result["errno"], 17, "but not without")
        t.eq(do(a, MOVE, "/mnt/x", path2="/mnt/moved").result["how"], DONE, "move")
        t.eq((info(a, "/mnt/x"), info(a, "/mnt/moved/y/z")["mode"]), (2, 0o700), "moved")
        t.eq(do(a, REMOVE, "/mnt/moved").result["errno"], 39, "remove of a full folder")
        a.sh("ln -s /mnt/a /mnt/moved/y/out")
        t.eq(do(a, REMOVE, "/mnt/moved", flags=RECURSIVE).result["how"], DONE, "recursive remove")
        t.eq(do(a, READ, "/mnt/a/new").out[OUT], b"dangling", "which follows no link")
        s = a.open(WRITE, path="/mnt/part")
        s.send(b"x" * 100_000)
        s.wait(lambda s: s.credit >= WINDOW - 65536)
        s.reset()
        s.wait()
        t.eq((s.result["how"], a.sh("ls -A /mnt | grep -c -e part -e .brig").out[OUT]), (ERROR, b"0\n"),
             "an interrupted write leaves nothing")
        s = do(a, WRITE, "/mnt/big", b"x" * (70 << 20))
        t.eq((s.result.get("errno"), info(a, "/mnt/big")), (28, 2), "a full disk is ENOSPC and leaves nothing")
    with agent() as a:
        s = a.open(METRICS)
        s.wait()
        v = records(s.out[OUT])[0]["value"]
        t.ok(len(v) == 6 and v[2] >= 2 and v[1] > 0, "metrics", v)


def details(t):
    detail, in_place = 1 << 13, 1 << 14
    with agent() as a:
        a.sh("cd /mnt; mkdir d; echo 123 > d/f; chmod 640 d/f; ln -s f d/l; ln -s l d/ll; ln -s none d/dead; ln -s loop d/loop")
        names = {r["name"]: r for r in records(do(a, LIST, "/mnt/d", flags=detail).out[OUT])}
        t.eq((names[b"f"]["group"], "real" in names[b"f"], "xattr" in names[b"f"]), (b"root", False, False), "a group's name")
        t.eq([names[n].get("real") for n in (b"l", b"ll", b"dead", b"loop")], [b"/mnt/d/f", b"/mnt/d/f", None, None], "where links lead")
        t.eq((names[b"ll"]["real_type"], names[b"ll"]["real_mode"], names[b"ll"]["mode"]), (8, 0o640, 0o777), "what is there")
        t.eq("group" in info(a, "/mnt/d/f"), False, "only when asked for")
        ino = a.sh("stat -c %i /mnt/d/f").out[OUT]
        s = do(a, WRITE, "/mnt/d/f", b"new", flags=in_place, xattrs="user.x.", xattr=["user.x.a=1", b"user.x.b=\xff\0"])
        t.eq((s.result["how"], a.sh("stat -c %i /mnt/d/f").out[OUT] == ino, info(a, "/mnt/d/f")["mode"]), (DONE, True, 0o640), "in place")
        t.eq(sorted(info(a, "/mnt/d/f", flags=detail, xattrs="user.x.")["xattr"]), [b"user.x.a=1", b"user.x.b=\xff\0"], "attributes")
        t.eq("xattr" in info(a, "/mnt/d/f", flags=detail, xattrs="user.y."), False, "of the names asked for")
        do(a, WRITE, "/mnt/d/f", b"newer", flags=in_place, xattrs="user.x.", xattr=["user.x.c="])
        t.eq(info(a, "/mnt/d/f", flags=detail, xattrs="user.x.")["xattr"], [b"user.x.c="], "replaced")
        do(a, WRITE, "/mnt/d/f", b"again", flags=in_place)
        t.eq(info(a, "/mnt/d/f", flags=detail, xattrs="user.x.")["xattr"], [b"user.x.c="], "or left alone")
        for bad in ("user.z.a=1", "user.x.a", "=1", b"user.x.\0=1"):
            t.eq(do(a, WRITE, "/mnt/d/f", b"", flags=in_place, xattrs="user.x.", xattr=[bad]).result["errno"], 22, f"refused {bad}")
        do(a, WRITE, "/mnt/d/new", b"x", xattrs="user.x.", xattr=["user.x.n=1"])
        t.eq(info(a, "/mnt/d/new", flags=detail, xattrs="user.x.")["xattr"], [b"user.x.n=1"], "of a new file")
        w = a.open(WATCH, path="/mnt/d", flags=detail)
        w.wait(lambda s: s.pid is not None)
        a.sh("echo 1 > /mnt/d/made")
        w.wait(lambda s: any(r["event"] == 2 for r in records(s.out[OUT])))
        t.eq([(r["event"], r["name"], r["mode"], r["group"]) for r in records(w.out[OUT])][0], (1, b"made", 0o644, b"root"), "a watch's details")
        w.reset()
        w.wait()


def entry(kind, path, data=b"", mode=0o644, target=b"", size=None, holes=()):
    size = len(data) + sum(holes) if size is None else size
    out = struct.pack("<BBHIIIQQ", kind, 0, mode, len(path), len(target), 0, size, 10**18) + path + target
    if kind == FILE:
        for i in range(0, len(data), 1 << 20):
            piece = data[i:i + (1 << 20)]
            out += struct.pack("<I", len(piece)) + piece
        for h in holes:
            out += struct.pack("<IQ", 1 << 31, h)
        out += struct.pack("<I", 0)
    return out


def packed(*entries):
    return b"BRGPACK1" + b"".join(entries) + bytes(32)


def unpack(raw):
    raw, out = bytes(raw), {}
    assert raw[:8] == b"BRGPACK1"
    at = 8
    while True:
        kind, _, mode, pn, tn, _, size, mtime = struct.unpack_from("<BBHIIIQQ", raw, at)
        at += 32
        if kind == 0:
            assert at == len(raw)
            return out
        path, target = raw[at:at + pn], raw[at + pn:at + pn + tn]
        at += pn + tn
        data, holes = b"", 0
        while kind == FILE:
            n, = struct.unpack_from("<I", raw, at)
            at += 4
            if n == 0:
                break
            if n == 1 << 31:
                holes += struct.unpack_from("<Q", raw, at)[0]
                at += 8
            else:
                data += raw[at:at + n]
                at += n
        out[path] = (kind, mode, data if kind == FILE else target, holes)


def pack(t):
    with agent() as a:
        data = os.urandom(1_500_000)
        stream = packed(entry(DIR, b"", mode=0o755), entry(DIR, b"d", mode=0o500), entry(FILE, b"d/f", data, 0o755),
                        entry(LINK, b"d/l", target=b"../x", mode=0o777), entry(FILE, b"s", b"end", holes=(50 << 30,)),
                        entry(FILE, b"e"))
        s = do(a, PACK_IN, "/mnt/in", stream)
        t.eq(s.result["how"], DONE, f"unpack {s.text}")
        st = info(a, "/mnt/in/s")
        t.ok(st["size"] == (50 << 30) + 3 and st["blocks"] < 1 << 20 and st["mtime"] == 10**18, "a 50 GiB hole", st)
        t.eq((info(a, "/mnt/in/d")["mode"], info(a, "/mnt/in/d/f")["mode"]), (0o500, 0o755), "modes")
        s = do(a, PACK_OUT, "/mnt/in")
        got = unpack(s.out[OUT])
        t.eq(got[b"d/f"] == (FILE, 0o755, data, 0), True, "round trip of a file")
        t.eq((got[b"d"][:2], got[b"d/l"][2], got[b"e"][2], got[b""][0]), ((DIR, 0o500), b"../x", b"", DIR),
             "and of folder, link, empty file")
        t.ok(got[b"s"][3] >= (50 << 30) - 4096 and len(got[b"s"][2]) <= 8192, "and of the hole", got[b"s"][3])
        a.sh("mkfifo /mnt/in/p; ln -s /etc /mnt/in/etc; chmod 700 /mnt/in/d")
        got = unpack(do(a, PACK_OUT, "/mnt/in").out[OUT])
        t.ok(b"p" not in got and got[b"etc"][0] == LINK and b"etc/passwd" not in got, "no fifo, no link followed")
        t.eq(unpack(do(a, PACK_OUT, "/mnt/in/e").out[OUT]), {b"": (FILE, 0o644, b"", 0)}, "one file is its own root")
        s = do(a, PACK_IN, "/mnt/one/file", packed(entry(FILE, b"", b"alone")), flags=PARENTS)
        t.eq(do(a, READ, "/mnt/one/file").out[OUT], b"alone", "and goes back as such")
        s = do(a, PACK_IN, "/mnt/in", packed(entry(FILE, b"etc/evil", b"x")))
        t.ok(s.result["how"] == ERROR and not os.path.exists("/etc/evil"), "a link in the way is not followed", s.text)
        do(a, PACK_IN, "/mnt/in", packed(entry(FILE, b"etc", b"file now")))
        t.eq(do(a, READ, "/mnt/in/etc").out[OUT], b"file now", "a link is replaced by a file")
        s = do(a, PACK_IN, "/mnt/in", packed(entry(LINK, b"q", target=b"/etc"), entry(FILE, b"q/evil", b"x")))
        t.ok(s.result["how"] == ERROR, "a link of the stream itself is not followed", s.result)
        for bad in [b"/abs", b"../up", b"a/../../b", b"a//b", b"a\0b"]:
            s = do(a, PACK_IN, "/mnt/in", packed(entry(FILE, bad, b"x")))
            t.eq(s.result.get("errno"), 71, f"refused: {bad}")
        t.eq(do(a, PACK_IN, "/mnt/in", stream[:1000]).result.get("errno"), 71, "a stream that ends early")
        t.eq(do(a, PACK_IN, "/mnt/in", stream + b"x").result.get("errno"), 71, "a stream that goes on")
        t.eq(do(a, PACK_IN, "/mnt/in", b"nonsense").result.get("errno"), 71, "no stream at all")
        t.eq(do(a, PACK_IN, "/mnt/in", packed(entry(FILE, b"n/o", b"x"))).result.get("errno"), 2, "a missing parent")
        t.eq(do(a, PACK_IN, "/mnt/in", packed(entry(FILE, b"n/o/p", b"x")), flags=PARENTS).result["how"], DONE,
             "is made on request")
        s = do(a, PACK_IN, "/mnt/in", packed(entry(FILE, b"d", b"x")))
        t.eq(s.result.get("errno"), 21, "a folder is not replaced")
        s = do(a, PACK_IN, "/mnt/many", packed(entry(DIR, b"", mode=0o755),
                                               *(entry(DIR, b"%d" % i, mode=0o555) for i in range(5000))))
        got = a.sh("find /mnt/many -perm 555 | wc -l").out[OUT]
        t.eq((s.result["how"], got), (DONE, b"5000\n"), f"thousands of folders nobody may write to {s.text}")


CREATED, WRITTEN, REMOVED, RENAMED, CHMODDED = 1, 2, 3, 4, 5


def watch(t):
    with agent() as a:
        w = a.open(WATCH, path="/mnt", flags=RECURSIVE)
        w.wait(lambda s: s.pid is not None)

        def events(script, last):
            start = len(w.out[OUT])
            a.sh(script)
            a.sh(f"mkdir /mnt/{last}")
            end = last.encode()
            w.wait(lambda s: any(r["name"] == end for r in records(s.out[OUT][start:])))
            return [(r["event"], r["name"], r.get("target")) for r in records(w.out[OUT][start:])][:-1]

        t.eq(events("echo x > /mnt/f", "end1"), [(CREATED, b"f", None), (WRITTEN, b"f", None)], "create and write")
        t.eq(events("mv /mnt/f /mnt/g; rm /mnt/g", "end2"), [(RENAMED, b"f", b"g"), (REMOVED, b"g", None)],
             "rename and remove")
        got = events("mkdir -p /mnt/a/b/c; echo x > /mnt/a/b/c/f; mv /mnt/a/b/c/f /mnt/a/b/c/g; rm /mnt/a/b/c/g", "end3")
        made = [e[1] for e in got if e[0] == CREATED]
        t.eq(made[:3], [b"a", b"a/b", b"a/b/c"], "new folders in order")
        t.eq(len(made), len(set(made)), "no duplicates")
        t.ok(b"a/b/c/g" in [x for e in got for x in e[1:]] and (REMOVED, b"a/b/c/g", None) in got, "events in them", got)
        t.eq(events("chmod 700 /mnt/a", "end4"), [(CHMODDED, b"a", None)], "chmod")
        got = events("mv /mnt/a /mnt/z; echo y > /mnt/z/b/n", "end5")
        t.eq(got[0], (RENAMED, b"a", b"z"), "a folder is renamed")
        t.ok((CREATED, b"z/b/n", None) in got, "and watched under its new name", got)
        got = events("for i in 1 2 3 4 5 6 7 8 9; do mkdir -p /mnt/t$i/u/v && : > /mnt/t$i/u/v/w; done", "end6")
        made = [e[1] for e in got if e[0] == CREATED]
        want = {f"t{i}{x}".encode() for i in range(1, 10) for x in ("", "/u", "/u/v", "/u/v/w")}
        t.eq((set(made) == want, len(made)), (True, 36), "many fresh trees: each entry exactly once")
        w.reset()
        w.wait()
        t.eq(w.result["how"], DONE, "RESET ends a watch")
        w = a.open(WATCH, path="/mnt/t1")
        w.wait(lambda s: s.pid is not None)
        a.sh("rm -r /mnt/t1")
        w.wait()
        t.eq((w.result["how"], records(w.out[OUT])[-1]["event"]), (DONE, 3), "a watch ends with its folder")
        s = do(a, WATCH, "/mnt/none")
        t.eq(s.result["errno"], 2, "nothing to watch")


main(basics, details, pack, watch)

#!/usr/bin/python3
"""filesystem.Filesystem of a keeper: every method, odd names, its errors, watching."""
import base64
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import case, eq, main, nothing_left, ok, until  # noqa: E402
from callclient import STREAM, Keeper  # noqa: E402

F = "filesystem.Filesystem/"


def sh(k, script, user=None):
    with k.stream("process.Process/Start", {"process": {"cmd": "/bin/bash", "args": ["-c", script]}, "stdin": False}, user) as c:
        out, end = b"", None
        while (m := c.message()) is not None:
            e = m[1].get("event", {})
            for v in e.get("data", {}).values():
                out += base64.b64decode(v)
            end = e.get("end", end)
        ok(end and end["exitCode"] == 0, f"{script}: {end} {out}")
        return out


def stat(k, path, **more):
    status, o = k.rpc(F + "Stat", {"path": path}, **more)
    return o["entry"] if status == 200 else (status, o["code"], o["message"])


def listed(k, path, depth=None):
    status, o = k.rpc(F + "ListDir", {"path": path, **({"depth": depth} if depth is not None else {})})
    return o["entries"] if status == 200 else (status, o["code"], o["message"])


@case
def entries(m):
    with Keeper(m) as k:
        sh(k, "mkdir d; echo 12345 > d/f; chmod 4751 d/f; ln -s f d/l; ln -s l d/ll; ln -s no d/dead; ln -s d dl; mkfifo d/p; chmod 1777 d;"
              "touch -d '2001-02-03 04:05:06.789 UTC' d/f")
        e = stat(k, "d/f")
        eq({x: e[x] for x in e}, {"name": "f", "path": "/home/user/d/f", "type": "FILE_TYPE_FILE", "size": "6", "mode": 0o751,
                                  "permissions": "urwxr-x--x", "owner": "user", "group": "user",
                                  "modifiedTime": "2001-02-03T04:05:06.789000000Z"})
        e = stat(k, "~/d")
        eq((e["type"], e["permissions"], e["path"]), ("FILE_TYPE_DIRECTORY", "dtrwxrwxrwx", "/home/user/d"))
        e = stat(k, "/home/user/d/../d/ll")
        eq((e["type"], e["symlinkTarget"], e["mode"], e["permissions"], e["path"]),
           ("FILE_TYPE_FILE", "/home/user/d/f", 0o751, "Lrwxrwxrwx", "/home/user/d/ll"))
        eq(stat(k, "dl")["type"], "FILE_TYPE_DIRECTORY")
        e = stat(k, "d/dead")
        eq((e["type"], e["symlinkTarget"]), ("FILE_TYPE_UNSPECIFIED", "/home/user/d/dead"))
        eq((stat(k, "d/p")["type"], stat(k, "d/p")["permissions"][0], stat(k, "/dev/null")["permissions"]),
           ("FILE_TYPE_UNSPECIFIED", "p", "Dcrw-rw-rw-"))
        eq(stat(k, "/")["name"], "/")
        eq(stat(k, "none"), (404, "not_found", "path '/home/user/none' does not exist"))
        eq(stat(k, "~", user="nobody-there")[1], "unauthenticated")
        eq(stat(k, "x" * 5000)[1], "invalid_argument")
        eq(k.rpc(F + "Stat", {})[1]["code"], "invalid_argument")
        eq(k.rpc(F + "Stat", {"path": "a\0b"})[0], 400)
        if m.name == "root":
            eq((stat(k, "~", user="root")["path"], stat(k, "/root/x", user="root")[1]), ("/root", "not_found"))


@case
def lists(m):
    with Keeper(m) as k:
        sh(k, "mkdir -p l/b/c l/a l/b.d; touch l/b/c/f l/b/z l/b-x l/a/1 l/.hid; ln -s l sl; ln -s lo lo")
        names = lambda v: [e["path"][len("/home/user/"):] for e in v]
        eq(names(listed(k, "l")), ["l/.hid", "l/a", "l/b", "l/b-x", "l/b.d"])
        eq(names(listed(k, "l", 0)), names(listed(k, "l", 1)))
        eq(names(listed(k, "l", 2)), ["l/.hid", "l/a", "l/a/1", "l/b", "l/b/c", "l/b/z", "l/b-x", "l/b.d"])
        eq(names(listed(k, "l", 99)), ["l/.hid", "l/a", "l/a/1", "l/b", "l/b/c", "l/b/c/f", "l/b/z", "l/b-x", "l/b.d"])
        eq(names(listed(k, "sl", 2))[:2], ["sl/.hid", "sl/a"], "paths are below what was asked for")
        ok("etc" in [e["name"] for e in listed(k, "/")], "the root")
        eq(listed(k, "none")[1], "not_found")
        eq(listed(k, "l/b/z")[1], "invalid_argument")
        eq(listed(k, "lo")[1], "failed_precondition")
        eq(k.rpc(F + "ListDir", {"path": "l", "depth": -1})[0], 400)
        # many, and odd names
        sh(k, "mkdir many odd; cd many; seq -f f%05.0f 3000 | xargs touch; cd ../odd; touch $'nl\\n' $'q\"\\\\' $'\\xff\\xfe' 'ü ñ' $'\\x01' -- -rf")
        v = listed(k, "many")
        eq((len(v), v[0]["name"], v[-1]["name"]), (3000, "f00001", "f03000"))
        eq(sorted(e["name"] for e in listed(k, "odd")), sorted(["nl\n", "q\"\\", "\ufffd\ufffd", "ü ñ", "\x01", "-rf"]))
        sh(k, "mkdir -p deep && cd deep && for i in $(seq 200); do mkdir d && cd d || exit; done")
        eq(len(listed(k, "deep", 64)), 64)


@case
def make_move_remove(m):
    with Keeper(m) as k:
        def make(path):
            status, o = k.rpc(F + "MakeDir", {"path": path})
            return o["entry"] if status == 200 else (status, o["code"])
        e = make("new/a/b")
        eq((e["path"], e["mode"], e["owner"], e["type"]), ("/home/user/new/a/b", 0o755, "user", "FILE_TYPE_DIRECTORY"))
        eq(make("new/a/b"), (409, "already_exists"))
        sh(k, "echo x > file")
        eq(make("file"), (400, "invalid_argument"))
        eq(make("file/x")[0], 400)
        eq(make("/proc/x")[1] in ("permission_denied", "not_found"), True)
        def move(a, b):
            status, o = k.rpc(F + "Move", {"source": a, "destination": b})
            return o["entry"]["path"] if status == 200 else (status, o["code"])
        eq(move("file", "somewhere/else/f2"), "/home/user/somewhere/else/f2")
        eq(move("file", "x"), (404, "not_found"))
        eq(k.rpc(F + "Move", {"source": "x"})[0], 400)
        eq(sh(k, "cat somewhere/else/f2"), b"x\n")
        eq(k.rpc(F + "Remove", {"path": "new"}), (200, {}))
        eq(k.rpc(F + "Remove", {"path": "new"}), (200, {}), "again")
        eq(stat(k, "new/a")[1], "not_found")
        eq(k.rpc(F + "Remove", {"path": "/usr/bin/env"})[0] in (400, 403), True)


def events(c, until_name):
    out = []
    while True:
        flags, o = c.message()
        eq(flags, 0, o)
        if "filesystem" in o:
            e = o["filesystem"]
            if e["name"] == until_name:
                return out
            out.append((e["type"].replace("EVENT_TYPE_", ""), e["name"]) + ((e["entry"],) if "entry" in e else ()))


@case
def watch_dir(m):
    with Keeper(m) as k:
        sh(k, "mkdir w; touch w/old")
        with k.stream(F + "WatchDir", {"path": "w"}) as c:
            eq((c.status, c.fields["content-type"], c.message()), (200, STREAM, (0, {"start": {}})))
            sh(k, "cd w; echo 1 > f; chmod 600 old; mv old new; rm f; mkdir sub; echo 1 > sub/x; touch end1")
            got = events(c, "end1")
            eq([e for e in got if e[0] != "WRITE"], [("CREATE", "f"), ("CHMOD", "old"), ("RENAME", "old"), ("CREATE", "new"),
                                                   ("REMOVE", "f"), ("CREATE", "sub")])
            ok(("WRITE", "f") in got, got)
            sh(k, "rm -r w")
            last = None
            while (x := c.message()) is not None:
                last = x
            eq(last, (2, {}), "a watch ends with its folder")
        sh(k, "mkdir w")
        with k.stream(F + "WatchDir", {"path": "/home/user/w", "recursive": True, "include_entry": True}) as c:
            c.message()
            sh(k, "cd w; mkdir -p a/b/c; echo 1 > a/b/c/f; mv a/b/c/f a/g; rm a/g; touch end2")
            got = events(c, "end2")
            made = [e[1] for e in got if e[0] == "CREATE"]
            eq((sorted(made), len(made) == len(set(made))), (["a", "a/b", "a/b/c", "a/b/c/f", "a/g"], True))
            e = [x[2] for x in got if x[:2] == ("CREATE", "a/b") and len(x) > 2]
            ok(e and e[0]["path"] == "/home/user/w/a/b" and e[0]["type"] == "FILE_TYPE_DIRECTORY", got)
        with k.stream(F + "WatchDir", {"path": "w"}, keepalive_ping_interval=1) as c:
            c.message()
            eq(c.message(), (0, {"keepalive": {}}))
        with k.stream(F + "WatchDir", {"path": "w"}, connect_timeout_ms=300) as c:
            c.message()
            eq(c.message()[1]["error"]["code"], "deadline_exceeded")
        for path, code in (("none", "not_found"), ("w/end2", "invalid_argument"), (5, "invalid_argument")):
            with k.stream(F + "WatchDir", {"path": path}) as c:
                eq(c.message()[1]["error"]["code"], code, path)


@case
def watchers(m):
    with Keeper(m) as k:
        sh(k, "mkdir w")
        status, o = k.rpc(F + "CreateWatcher", {"path": "w", "includeEntry": True})
        eq(status, 200)
        wid = {"watcherId": o["watcherId"]}
        eq(k.rpc(F + "GetWatcherEvents", wid), (200, {"events": []}))
        sh(k, "echo 1 > w/f; rm w/f")
        seen = []
        def fetch():
            seen.extend((e["type"], e["name"]) for e in k.rpc(F + "GetWatcherEvents", wid)[1]["events"])
            return ("EVENT_TYPE_REMOVE", "f") in seen
        until(fetch, 10, lambda: seen)
        eq(seen[0], ("EVENT_TYPE_CREATE", "f"))
        eq(k.rpc(F + "GetWatcherEvents", wid)[1], {"events": []}, "drained")
        # far more than is kept for a client that does not fetch
        sh(k, "cd w; for i in $(seq 3000); do : > some-long-name-of-a-file-$i; done; for i in $(seq 3000); do echo > some-long-name-of-a-file-$i; done")
        seen.clear()
        def all_made():
            seen.extend((e["type"], e["name"]) for e in k.rpc(F + "GetWatcherEvents", wid)[1]["events"])
            return ("EVENT_TYPE_WRITE", "some-long-name-of-a-file-3000") in seen
        until(all_made, 30, lambda: len(seen))
        made = [n for e, n in seen if e == "EVENT_TYPE_CREATE"]
        eq((len(made), len(set(made))), (3000, 3000), "each once")
        eq(k.rpc(F + "RemoveWatcher", wid), (200, {}))
        eq(k.rpc(F + "RemoveWatcher", wid)[1]["code"], "not_found")
        eq(k.rpc(F + "GetWatcherEvents", wid)[1]["code"], "not_found")
        eq(k.rpc(F + "CreateWatcher", {"path": "none"})[1]["code"], "not_found")
        eq(k.rpc(F + "CreateWatcher", {"path": "/etc/passwd"})[1]["code"], "invalid_argument")
        for _ in range(64):
            eq(k.rpc(F + "CreateWatcher", {"path": "w"})[0], 200)
        eq(k.rpc(F + "CreateWatcher", {"path": "w"})[1]["code"], "resource_exhausted")


sys.exit(main(after_each=nothing_left))
